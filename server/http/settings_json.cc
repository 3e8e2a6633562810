// Tested by tests/e2e/serving/settings_test.py.
#include "server/http/settings_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/http/json_text.h"

namespace kiln::server {

using nlohmann::json;

absl::StatusOr<inference::TraceSettingRequest> ReadTraceSettings(absl::string_view body) {
  KILN_ASSIGN_OR_RETURN(const json object, ParseJson(body));
  inference::TraceSettingRequest request;
  const auto is_text = [](const json& value) { return value.is_string(); };
  for (const auto& [name, value] : object.items()) {
    auto& setting = (*request.mutable_settings())[name];
    if (value.is_null()) continue;  // as it was at first
    if (value.is_array() && !value.empty() && absl::c_all_of(value, is_text)) {
      for (const json& each : value) setting.add_value(each.get<std::string>());
    } else if (value.is_string()) {
      setting.add_value(value.get<std::string>());
    } else if (value.is_number_integer()) {
      setting.add_value(value.dump());
    } else {
      return BadField(Shown(name), "is a string, a number, an array of strings, or null");
    }
  }
  return request;
}

json WriteTraceSettings(const inference::TraceSettingResponse& response) {
  json made = json::object();
  for (const auto& [name, setting] : response.settings()) {
    // The one that is a list.
    if (name == "trace_level") {
      made[name] = json(std::vector<std::string>(setting.value().begin(), setting.value().end()));
    } else {
      made[name] = setting.value_size() == 0 ? "" : setting.value(0);
    }
  }
  return made;
}

absl::StatusOr<inference::LogSettingsRequest> ReadLogSettings(absl::string_view body) {
  KILN_ASSIGN_OR_RETURN(const json object, ParseJson(body));
  inference::LogSettingsRequest request;
  for (const auto& [name, value] : object.items()) {
    auto& setting = (*request.mutable_settings())[name];
    if (value.is_boolean()) {
      setting.set_bool_param(value.get<bool>());
    } else if (value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX) {
      setting.set_uint32_param(value.get<uint32_t>());
    } else if (value.is_string()) {
      setting.set_string_param(value.get<std::string>());
    } else {
      return BadField(Shown(name), "is true, false, a number from 0 to 4294967295, or a string");
    }
  }
  return request;
}

json WriteLogSettings(const inference::LogSettingsResponse& response) {
  json made = json::object();
  for (const auto& [name, setting] : response.settings()) {
    switch (setting.parameter_choice_case()) {
      case inference::LogSettingsResponse::SettingValue::kBoolParam: made[name] = setting.bool_param(); break;
      case inference::LogSettingsResponse::SettingValue::kUint32Param: made[name] = setting.uint32_param(); break;
      case inference::LogSettingsResponse::SettingValue::kStringParam: made[name] = setting.string_param(); break;
      case inference::LogSettingsResponse::SettingValue::PARAMETER_CHOICE_NOT_SET: break;
    }
  }
  return made;
}

}  // namespace kiln::server
