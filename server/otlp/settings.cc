#include "server/otlp/settings.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace kiln::server {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

absl::Status BadVariable(const std::string& name, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(name);
  return MakeError(detail, absl::StrCat(name, ": ", message));
}

// The first of them that is set to something.
struct Variable {
  std::string name, value;
};
Variable FirstOf(Environment environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = environment(name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

// "%2C" is a comma. Nothing for what is no such text.
bool Decoded(absl::string_view text, std::string& decoded) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) || !absl::ascii_isxdigit(text[i + 2])) return false;
    decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
    i += 2;
  }
  return std::none_of(decoded.begin(), decoded.end(), absl::ascii_iscntrl);
}

// "key=value,key=value", as OpenTelemetry writes lists.
absl::StatusOr<Pairs> PairsOf(const Variable& variable) {
  Pairs pairs;
  for (absl::string_view each : absl::StrSplit(variable.value, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(each, absl::MaxSplits('=', 1));
    std::string key, value;
    const absl::string_view name = absl::StripAsciiWhitespace(pair.first);
    if (name.empty() || !absl::StrContains(each, '=') || !Decoded(name, key) ||
        !Decoded(absl::StripAsciiWhitespace(pair.second), value)) {
      return BadVariable(variable.name,
                         "not a list of key=value, separated by commas, with % before two digits of hex");
    }
    pairs.emplace_back(std::move(key), std::move(value));
  }
  return pairs;
}

void Set(Pairs& pairs, const std::string& key, const std::string& value) {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == key; });
  if (found != pairs.end()) {
    found->second = value;
  } else {
    pairs.emplace_back(key, value);
  }
}

// A random UUID, of version 4.
std::string NewInstanceId() {
  std::random_device random;
  const uint32_t a = random(), b = random(), c = random(), d = random();
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%04x%08x", a, b >> 16, b & 0xfff, 0x8000 | (c >> 16 & 0x3fff),
                         c & 0xffff, d);
}

absl::StatusOr<std::string> UrlOf(const v1::ServerConfig& config, Environment environment) {
  if (config.otlp_endpoint() == "none") return "";
  if (!config.otlp_endpoint().empty()) return config.otlp_endpoint();
  Variable found = FirstOf(environment, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"});
  if (found.value.empty()) {
    found = FirstOf(environment, {"OTEL_EXPORTER_OTLP_ENDPOINT"});
    if (found.value.empty()) return "";
    absl::StrAppend(&found.value, absl::EndsWith(found.value, "/") ? "" : "/", "v1/traces");
  }
  if (absl::StartsWith(found.value, "http://") || absl::StartsWith(found.value, "https://")) return found.value;
  return BadVariable(found.name, "neither an http:// nor an https:// URL");
}

}  // namespace

absl::StatusOr<OtlpSettings> OtlpSettingsOf(const v1::ServerConfig& config, const std::string& version,
                                            Environment environment) {
  OtlpSettings settings;
  KILN_ASSIGN_OR_RETURN(settings.url, UrlOf(config, environment));
  if (settings.url.empty()) return settings;
  settings.sample_ratio = config.trace_sample_ratio();
  KILN_ASSIGN_OR_RETURN(
      const Pairs headers,
      PairsOf(FirstOf(environment, {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"})));
  for (const auto& [name, value] : headers) settings.headers.push_back(absl::StrCat(name, ": ", value));
  settings.ca_file =
      FirstOf(environment, {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"}).value;
  settings.resource = {
      {"service.name", "kilnd"}, {"service.version", version}, {"service.instance.id", NewInstanceId()}};
  KILN_ASSIGN_OR_RETURN(const Pairs given, PairsOf(FirstOf(environment, {"OTEL_RESOURCE_ATTRIBUTES"})));
  for (const auto& [key, value] : given) Set(settings.resource, key, value);
  const std::string name = FirstOf(environment, {"OTEL_SERVICE_NAME"}).value;
  if (!name.empty()) Set(settings.resource, "service.name", name);
  return settings;
}

}  // namespace kiln::server
