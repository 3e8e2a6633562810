#include "server/services/settings/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"

namespace kiln::server {
namespace {

using Level = spdlog::level::level_enum;
using LogValue = inference::LogSettingsRequest::SettingValue;

constexpr char kVerbose[] = "log_verbose_level", kRate[] = "trace_rate", kTraceLevel[] = "trace_level";
constexpr char kTimestamps[] = "TIMESTAMPS", kOff[] = "OFF";

// Switches of levels, the most urgent first.
struct Switch {
  absl::string_view name;
  Level level;
};
constexpr std::array<Switch, 3> kSwitches = {
    {{"log_error", spdlog::level::err}, {"log_warning", spdlog::level::warn}, {"log_info", spdlog::level::info}}};

absl::Status Refused(v1::ErrorCode code, absl::string_view setting, absl::string_view what) {
  const std::string name = absl::CHexEscape(setting.substr(0, 200));
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(name);
  return MakeError(std::move(detail), absl::StrCat("the setting ", name, " ", what));
}

absl::Status CannotBeSet(absl::string_view setting, absl::string_view there_are) {
  return Refused(v1::NOT_IMPLEMENTED, setting,
                 absl::StrCat("cannot be set while the server runs; ", there_are, " can"));
}

// What a request wants: a level at least so verbose, and at most so. spdlog's numbers fall as levels get more verbose.
struct Bounds {
  int at_most = spdlog::level::err;     // by what is turned on
  int at_least = spdlog::level::trace;  // by what is turned off
};

absl::Status AddSwitch(const Switch& row, const LogValue& value, Bounds& bounds) {
  if (value.parameter_choice_case() != LogValue::kBoolParam)
    return Refused(v1::BAD_ARGUMENT, row.name, "is true or false");
  if (value.bool_param()) {
    bounds.at_most = std::min<int>(bounds.at_most, row.level);
    return absl::OkStatus();
  }
  if (row.level == spdlog::level::err) return Refused(v1::BAD_ARGUMENT, row.name, "is always true");
  bounds.at_least = std::max<int>(bounds.at_least, row.level + 1);
  return absl::OkStatus();
}

absl::Status AddVerbosity(const LogValue& value, Bounds& bounds) {
  if (value.parameter_choice_case() != LogValue::kUint32Param)
    return Refused(v1::BAD_ARGUMENT, kVerbose, "is a number from 0 on");
  switch (value.uint32_param()) {
    case 0: bounds.at_least = std::max<int>(bounds.at_least, spdlog::level::info); break;
    case 1:
      bounds.at_least = std::max<int>(bounds.at_least, spdlog::level::debug);
      bounds.at_most = std::min<int>(bounds.at_most, spdlog::level::debug);
      break;
    default: bounds.at_most = spdlog::level::trace;
  }
  return absl::OkStatus();
}

// The nearest whole number of calls of which one is sampled; 0: none is.
uint64_t RateOf(double ratio) { return ratio <= 0 ? 0 : static_cast<uint64_t>(std::llround(1 / ratio)); }

}  // namespace

absl::StatusOr<Level> LevelOf(const inference::LogSettingsRequest& request, Level now) {
  Bounds bounds;
  for (const auto& [name, value] : request.settings()) {
    const auto row = std::find_if(kSwitches.begin(), kSwitches.end(),
                                  [name = absl::string_view(name)](const Switch& each) { return each.name == name; });
    if (row != kSwitches.end()) {
      KILN_RETURN_IF_ERROR(AddSwitch(*row, value, bounds));
    } else if (name == kVerbose) {
      KILN_RETURN_IF_ERROR(AddVerbosity(value, bounds));
    } else {
      return CannotBeSet(name, "log_warning, log_info and log_verbose_level");
    }
  }
  if (bounds.at_least > bounds.at_most) {
    return Refused(v1::BAD_ARGUMENT, kVerbose,
                   "contradicts log_warning or log_info, or they each other: what is less urgent is logged only where "
                   "what is more urgent is");
  }
  return static_cast<Level>(std::clamp<int>(now, bounds.at_least, bounds.at_most));
}

void FillLogSettings(Level level, absl::string_view format, inference::LogSettingsResponse& answer) {
  auto& settings = *answer.mutable_settings();
  for (const Switch& row : kSwitches) settings[std::string(row.name)].set_bool_param(level <= row.level);
  const int more = spdlog::level::info - level;
  settings[kVerbose].set_uint32_param(static_cast<uint32_t>(std::max(more, 0)));
  settings["log_file"].set_string_param("");  // the error output
  settings["log_format"].set_string_param(std::string(format));
}

absl::StatusOr<Traces::Sampling> SamplingOf(const inference::TraceSettingRequest& request, Traces::Sampling now,
                                            Traces::Sampling first) {
  for (const auto& [name, value] : request.settings()) {
    const std::string text = value.value_size() == 1 ? value.value(0) : "";
    if (name == kRate) {
      uint64_t rate = 0;
      if (value.value_size() == 0) {
        now.ratio = first.ratio;
      } else if (absl::SimpleAtoi(text, &rate) && rate >= 1) {
        now.ratio = 1.0 / static_cast<double>(rate);
      } else {
        return Refused(v1::BAD_ARGUMENT, kRate, "is a number from 1 on: of so many calls one is traced");
      }
    } else if (name == kTraceLevel) {
      if (value.value_size() != 0 && text != kTimestamps && text != kOff) {
        return Refused(v1::BAD_ARGUMENT, kTraceLevel,
                       absl::StrCat("is ", kTimestamps, " or ", kOff, "; no tensors are traced"));
      }
      now.on = value.value_size() == 0 ? first.on : text == kTimestamps;
    } else {
      return CannotBeSet(name, "trace_rate and trace_level");
    }
  }
  if (now.on && now.ratio <= 0)
    return Refused(v1::BAD_ARGUMENT, kTraceLevel, "needs a trace_rate: of how many calls one is traced");
  return now;
}

void FillTraceSettings(Traces::Sampling sampling, bool exports, inference::TraceSettingResponse& answer) {
  auto& settings = *answer.mutable_settings();
  settings[kTraceLevel].add_value(exports && sampling.on && sampling.ratio > 0 ? kTimestamps : kOff);
  settings[kRate].add_value(absl::StrCat(RateOf(sampling.ratio)));
  settings["trace_count"].add_value("-1");  // no end
  settings["log_frequency"].add_value("0");
  settings["trace_file"].add_value("");
  settings["trace_mode"].add_value("opentelemetry");
}

}  // namespace kiln::server
