// Settings of a running server as JSON. A list of strings where the protocol has one, a string of a list of one.
#ifndef KILN_SERVER_HTTP_SETTINGS_JSON_H_
#define KILN_SERVER_HTTP_SETTINGS_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace inference {
class LogSettingsRequest;
class LogSettingsResponse;
class TraceSettingRequest;
class TraceSettingResponse;
}  // namespace inference

namespace kiln::server {

// BAD_ARGUMENT, whose field is the setting, for a value that is none.
absl::StatusOr<inference::TraceSettingRequest> ReadTraceSettings(absl::string_view body);
nlohmann::json WriteTraceSettings(const inference::TraceSettingResponse& response);
absl::StatusOr<inference::LogSettingsRequest> ReadLogSettings(absl::string_view body);
nlohmann::json WriteLogSettings(const inference::LogSettingsResponse& response);

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_SETTINGS_JSON_H_
