// What kilnd is told: one message, kiln.v1.ServerConfig.
//
// A field's value comes from the first of these that has it: the flag
// (--drain_seconds=5), the environment (KILN_DRAIN_SECONDS=5), the file named
// by --config, and the default in the table of config.cc. A field inside
// another has both names: graph_limits.max_nodes is --graph_limits_max_nodes.
#ifndef KILN_SERVER_CONFIG_H_
#define KILN_SERVER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/config.pb.h"

namespace kiln::server {

// One field of ServerConfig and what a person needs to know about it.
struct ConfigRow {
  const char* path;      // "graph_limits.max_nodes"
  const char* fallback;  // the default value; may be empty
  const char* help;
};
const std::vector<ConfigRow>& ConfigRows();

// One start of kilnd.
struct Invocation {
  v1::ServerConfig config;
  // Only check the configuration, print it and stop.
  bool check_config = false;
  // Where to write the port that is served; empty means nowhere.
  std::string port_file;
  // Not empty: print this and exit with `exit_code` (--help, --version or a
  // flag that cannot be read).
  std::string message;
  int exit_code = 0;
};

// Reads flags, environment and file, and checks the result.
absl::StatusOr<Invocation> ParseCommandLine(int argc, const char* const* argv);

// BAD_ARGUMENT whose `field` is the setting.
absl::Status BadSetting(absl::string_view path, absl::string_view message);

// Every default.
v1::ServerConfig DefaultConfig();

// BAD_ARGUMENT naming the field. Refuses an address that is not loopback without tenants or
// without encryption, unless `insecure` is set. Does not read the file of tenants.
absl::Status CheckConfig(const v1::ServerConfig& config);

// The names in `disable_pass`, each once, in alphabetical order, with a space for _.
std::vector<std::string> DisabledPasses(const v1::ServerConfig& config);

// Most bytes of one request, and of the results by value in one answer. It lies
// above the graph's limit, with room for tensors: what gRPC itself refuses gets no
// ErrorDetail.
uint64_t LargestMessage(const v1::ServerConfig& config);

// Whether only this machine can reach "host:port".
bool IsLoopback(absl::string_view listen);

}  // namespace kiln::server

#endif  // KILN_SERVER_CONFIG_H_
