// Values that are known at import: shape arithmetic.
//
// A model computes shapes by tensors: Shape, Gather, Mul, Concat, and then Reshape. The
// importer makes nodes of all of these, as of everything else; and where an op must know a
// value (Reshape its shape, Slice its bounds), asks here what the node is. A node is known if
// it comes from constants and sizes alone. Integers are client::Size, so what depends on
// variables stays exact: (2*n + 4) / 2 is n + 2. Nodes that were only asked about are not
// needed by the results, so they are not in the program.
//
// What is found is what docs/ir.md says of each op. Nothing here fails: what is not known, or
// would be more work than the limits grant, is unknown.
#ifndef KILN_MODELS_ONNX_KNOWN_H_
#define KILN_MODELS_ONNX_KNOWN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/cpp/arrays/host_tensor.h"
#include "client/cpp/graph.h"
#include "models/onnx/limits.h"

namespace kiln::onnx {

// A tensor of numbers: `integers` for integers and bool, else `reals`.
struct Known {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  client::Shape shape;
  std::vector<client::Size> integers;
  std::vector<double> reals;

  bool IsReal() const { return client::IsFloat(dtype); }
  int64_t count() const { return static_cast<int64_t>(IsReal() ? reals.size() : integers.size()); }
  // The integers where none depends on a variable.
  std::optional<std::vector<int64_t>> Numbers() const;
  // The numbers of either kind.
  std::optional<std::vector<double>> Reals() const;
};

// Elements as numbers; none for a dtype that has none.
std::optional<Known> FromHost(const client::HostTensor& tensor);
// Known::Reals of that, without the detour over client::Size, which is four times as large as a number: for tensors
// that are no shapes, and long.
std::optional<std::vector<double>> RealsFromHost(const client::HostTensor& tensor);

class KnownValues {
 public:
  // What the PARAM of a slot is, or null; and that something found by Find came from it.
  using Lookup = std::function<const client::HostTensor*(uint32_t slot)>;
  using Used = std::function<void(uint32_t slot)>;

  KnownValues(const client::Graph* graph, const Limits& limits, Lookup lookup, Used used)
      : graph_(*graph), limits_(limits), lookup_(std::move(lookup)), used_(std::move(used)) {}

  // Null if it is not known. Valid until the next call.
  const Known* Find(client::Tensor tensor);

 private:
  const Known* At(uint32_t node) const;
  // Tells used_ of the PARAMs beneath a node.
  void Tell(uint32_t node);
  std::optional<Known> Evaluate(uint32_t node);

  const client::Graph& graph_;
  const Limits limits_;
  const Lookup lookup_;
  const Used used_;
  int64_t work_ = 0;
  std::unordered_set<uint32_t> told_;
  // Null: looked at, and unknown.
  std::unordered_map<uint32_t, std::optional<Known>> found_;
};

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_KNOWN_H_
