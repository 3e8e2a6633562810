// The settings of a running server that the open inference protocol reads and sets: what is logged, and what is traced.
// They have Triton's names. Those that mean something here can be set; the others say what is so, and setting them is
// refused by name.
#ifndef KILN_SERVER_SERVICES_SETTINGS_SETTINGS_H_
#define KILN_SERVER_SERVICES_SETTINGS_SETTINGS_H_

#include <spdlog/common.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/trace/traces.h"

namespace inference {
class LogSettingsRequest;
class LogSettingsResponse;
class TraceSettingRequest;
class TraceSettingResponse;
}  // namespace inference

namespace kiln::server {

// The level that `request` makes of `now`, which is one of trace, debug, info, warn and err. A setting that is named
// takes the others along: who turns warnings off has no information either. BAD_ARGUMENT, whose field is the setting,
// for a value of another type, and for two that contradict each other; NOT_IMPLEMENTED for what cannot be set.
absl::StatusOr<spdlog::level::level_enum> LevelOf(const inference::LogSettingsRequest& request,
                                                  spdlog::level::level_enum now);
void FillLogSettings(spdlog::level::level_enum level, absl::string_view format, inference::LogSettingsResponse& answer);

// What is sampled, from `now` on; `first` is what a setting without a value goes back to. Errors as above.
absl::StatusOr<Traces::Sampling> SamplingOf(const inference::TraceSettingRequest& request, Traces::Sampling now,
                                            Traces::Sampling first);
void FillTraceSettings(Traces::Sampling sampling, bool exports, inference::TraceSettingResponse& answer);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_SETTINGS_SETTINGS_H_
