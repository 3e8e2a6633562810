// A version of a model that is a graph already: model.kgraph, and model.safetensors with its constants and signature
// (models/kgraph/README.md).
//
// As believed as an ONNX file is: in nothing. What the files say is read here; what the graph is, the compiler finds
// out, and then CheckProgram holds the signature against it.
#ifndef KILN_SERVER_MODELS_GRAPH_FILES_H_
#define KILN_SERVER_MODELS_GRAPH_FILES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "models/onnx/model.h"
#include "server/models/folder.h"

namespace kiln::server {

// The constants are those that the graph reads. Each error's message begins with the file's name: MALFORMED_MESSAGE for
// what is no graph; BAD_ARGUMENT for constants or a signature that are none, for files that do not belong to each
// other, and for a graph that is no model: its root is no TUPLE of as many results as there are outputs, it names
// devices, or carries code, which no flag lets in; GRAPH_TOO_LARGE, limit "model_limits.max_bytes", for either file;
// the graph's has the limits of clients' graphs, too: "bytes", "nodes" and "message parts", before any node is made.
// Blocks for the files, which are below the folder of models or nothing is read.
absl::StatusOr<onnx::Model> ReadGraphFiles(const ModelFiles& files, uint64_t max_bytes, const compiler::Limits& limits);

// BAD_ARGUMENT where the program that the model's graph was compiled to is another one than its signature says: types,
// shapes, sizes, results; or where it writes to what it is given, for its constants are other models', too. Inputs that
// the program has no use for are as the signature says.
absl::Status CheckProgram(const onnx::Model& model, const v1::Signature& program);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_GRAPH_FILES_H_
