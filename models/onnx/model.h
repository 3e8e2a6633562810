// An ONNX model as a Kiln program: what models/onnx/ is for.
//
//   KILN_ASSIGN_OR_RETURN(Model model, ImportFile("model.onnx", {.dimensions = {{"batch", {1, 64}}}}));
//   ... compile model.graph with model.constants as constant slots; each call gives model.inputs
//   and, where sizes depend on them, model.variables.
//
// A model is data: nothing of it is ever run as code, and what cannot be expressed as a
// graph is an error that names node, op, opset and reason. The model's file is believed in
// nothing: limits.h says what it may ask for.
//
// Errors: MALFORMED_MESSAGE for what is no ONNX; UNSUPPORTED_OP for an op, an opset or a
// use of an op that has no graph; BAD_ARGUMENT, SHAPE_MISMATCH or DTYPE_MISMATCH for nodes
// that contradict the standard; GRAPH_TOO_LARGE for what is over a limit. Where a node is
// at fault the detail has its number among its graph's nodes, its op_type and, as tag, its name.
//
// Threads: any. Blocks for reading files alone.
#ifndef KILN_MODELS_ONNX_MODEL_H_
#define KILN_MODELS_ONNX_MODEL_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/arrays/host_tensor.h"
#include "client/cpp/size.h"
#include "kiln/v1/graph.pb.h"
#include "models/onnx/limits.h"

namespace kiln::onnx {

// What a dimension with a name may be in a call. Equal ends make it a number.
struct DimensionRange {
  int64_t least = 1;
  int64_t greatest = 1;
};

struct ImportOptions {
  // By the names that the model gives its dimensions. One that is not here is of
  // `any_dimension`; without that it is refused, for only the caller knows what sizes will come.
  std::map<std::string, DimensionRange> dimensions;
  std::optional<DimensionRange> any_dimension;
  // Shapes of inputs, by name, in place of those in the file.
  std::map<std::string, client::Shape> shapes;
  // Values that inputs will have in each call. One is made use of only where a shape depends
  // on it, and is then fixed (Model::Input::fixed).
  std::map<std::string, client::HostTensor> values;
  Limits limits;
};

struct Model {
  struct Input {
    std::string name;
    uint32_t slot = 0;
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    client::Sizes shape;
    // The program is right only for the value that the options offered.
    bool fixed = false;
    // Whether the graph reads it at all.
    bool used = true;
  };
  struct Output {
    std::string name;
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    client::Sizes shape;
    // Its place in a sequence, if it is one of a sequence's tensors; `length` is that of the
    // sequence, and of an empty one there is one Output without a result.
    std::optional<size_t> index;
    size_t length = 0;
    // Its place among the graph's results; none for an optional that is empty.
    std::optional<size_t> result;
  };
  struct Constant {
    std::string name;
    uint32_t slot = 0;
    client::HostTensor value;
  };
  // The program; results in the order of `outputs`. Slots: inputs first, then variables, then constants.
  v1::Graph graph;
  std::vector<Input> inputs;
  std::vector<client::SizeVariable> variables;
  // Those initialisers that the program reads.
  std::vector<Constant> constants;
  std::vector<Output> outputs;
};

// `file` is a ModelProto. External data is refused, for it has no folder.
absl::StatusOr<Model> Import(absl::string_view file, const ImportOptions& options = {});

// External data is read from regular files below the model's own folder, nowhere else.
// NOT_FOUND if there is no such file.
absl::StatusOr<Model> ImportFile(const std::string& path, const ImportOptions& options = {});

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_MODEL_H_
