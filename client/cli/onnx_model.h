// ONNX models from the command line.
#ifndef KILN_CLIENT_CLI_ONNX_MODEL_H_
#define KILN_CLIENT_CLI_ONNX_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/onnx/model.h"

namespace CLI {
class App;
}

namespace kiln::cli {

struct ModelFlags {
  std::vector<std::string> sizes;   // "NAME=8" or "NAME=1:64", of a dimension that the model names
  std::vector<std::string> shapes;  // "NAME=1,3,224,224", of an input
};

void AddModelFlags(CLI::App& command, ModelFlags& flags);

// Whether it is one, by its name's ending: .onnx.
bool IsModel(const std::string& path);

// What the flags leave open is 1. `inputs`, as in InputFlags::files, have their files' shapes, and their values where
// a shape depends on them. The errors of models/onnx/model.h; INVALID_ARGUMENT for flags, NOT_FOUND for files.
absl::StatusOr<onnx::Model> ImportModel(const std::string& path, const ModelFlags& flags,
                                        const std::vector<std::string>& inputs);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_ONNX_MODEL_H_
