// What a graph is called with from the command line: files, and made-up values for
// what no file was given for.
#ifndef KILN_CLIENT_CLI_INPUTS_H_
#define KILN_CLIENT_CLI_INPUTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "kiln/v1/executable.pb.h"

namespace CLI {
class App;
}

namespace kiln::cli {

struct InputFlags {
  // "NAME=FILE.npy" or "SLOT=FILE.npy"
  std::vector<std::string> files;
  bool random = false;
  bool zeros = false;
  uint64_t seed = 1;
};

void AddInputFlags(CLI::App& command, InputFlags& flags);

// A device buffer for every parameter of the program, by slot. Fails, naming all of
// them, if some have no value; or if a file's dtype or shape is not the parameter's.
// `known` are values that need no file, by slot.
absl::StatusOr<std::map<uint32_t, client::DeviceBuffer>> MakeInputs(client::Client& client,
                                                                    const client::Program& program,
                                                                    const InputFlags& flags,
                                                                    std::map<uint32_t, client::HostTensor> known = {});

// The buffers as arguments; they must outlive them.
client::Arguments AsArguments(const std::map<uint32_t, client::DeviceBuffer>& buffers);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_INPUTS_H_
