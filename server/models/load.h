// From a file to a model that can be run: imported, compiled as any client's graph is, its weights on the device.
#ifndef KILN_SERVER_MODELS_LOAD_H_
#define KILN_SERVER_MODELS_LOAD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/engine/engine.h"
#include "server/models/folder.h"
#include "server/models/sequences/wake_ups.h"
#include "server/models/served_model.h"
#include "server/models/shared_constants.h"

namespace kiln::server {

// What sizes with a name may be.
struct ModelSizes {
  struct Range {
    int64_t least = 1, greatest = 1;
  };
  std::map<std::string, Range> named;
  std::optional<Range> others;
};

// "batch=1:64,tokens=128,*=1:256": a name, the least and the greatest, or a number; '*' is every other name.
// BAD_ARGUMENT with the field "model_sizes".
absl::StatusOr<ModelSizes> ParseModelSizes(absl::string_view text);

struct LoadSettings {
  std::string device;  // empty: the first
  ModelSizes sizes;
  uint64_t max_bytes = uint64_t{4} << 30;  // of a version's files, and again of its constants
};

// The errors of models/onnx, of graph_files.h, of the compiler, and of memory; GRAPH_TOO_LARGE, limit
// "model_limits.max_bytes"; UNSUPPORTED_OP for inputs and outputs that the protocol has no name for; those of
// sequence_config.h and pooled_graph.h; BAD_ARGUMENT for files that are not to be loaded. `session` owns the program;
// `engine` and `threads` outlive the model. Blocks, by `control` for as long as the compiler is asked.
absl::StatusOr<ServedModelPtr> LoadModel(const ModelFiles& files, const LoadSettings& settings, Engine& engine,
                                         SequencerThreads& threads, const SessionPtr& session, const Control& control,
                                         SharedConstants& constants);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_LOAD_H_
