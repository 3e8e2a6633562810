// Where traces are exported to, as the server's settings and OpenTelemetry's own variables of the environment say.
#ifndef KILN_SERVER_OTLP_SETTINGS_H_
#define KILN_SERVER_OTLP_SETTINGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kiln/v1/config.pb.h"

namespace kiln::server {

struct OtlpSettings {
  // Empty: nothing is exported.
  std::string url;
  // "name: value", for each request; may be secret.
  std::vector<std::string> headers;
  // Who vouches for the collector, PEM; empty: whoever this machine trusts.
  std::string ca_file;
  // Attributes of the server, each once: service.name, service.version and service.instance.id among them.
  std::vector<std::pair<std::string, std::string>> resource;
  double sample_ratio = 0;
};

// A variable's value; null where it is not set.
using Environment = absl::FunctionRef<const char*(const char*)>;

// --otlp_endpoint, or without it OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT with /v1/traces
// behind it; and of the environment alone OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE (also
// with TRACES_ in their middle, which then count), OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES. `version` is the
// server's. BAD_ARGUMENT naming a variable that is malformed. The instance's id is new each time.
absl::StatusOr<OtlpSettings> OtlpSettingsOf(const v1::ServerConfig& config, const std::string& version,
                                            Environment environment);

}  // namespace kiln::server

#endif  // KILN_SERVER_OTLP_SETTINGS_H_
