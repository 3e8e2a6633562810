#include "tests/conformance/programs/program_cases.h"

#include <cstring>

#include "base/check.h"
#include "base/graph/graph_text.h"

namespace kiln::testing {
namespace {

template <typename T>
compiler::HostTensor Host(compiler::DType dtype, const std::vector<T>& values) {
  compiler::HostTensor tensor{dtype, {static_cast<int64_t>(values.size())}, std::string(values.size() * sizeof(T), 0)};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

}  // namespace

v1::Graph FlatList(const std::string& text) {
  auto graph = ParseGraph(text);
  KILN_CHECK(graph.ok());
  v1::UOp list;
  list.set_op(v1::LINEAR);
  for (int i = 0; i < graph->nodes_size(); ++i) list.add_src(static_cast<uint32_t>(i));
  *graph->add_nodes() = list;
  return *std::move(graph);
}

compiler::HostTensor Int32s(const std::vector<int32_t>& values) { return Host(compiler::DType::kInt32, values); }
compiler::HostTensor Float32s(const std::vector<float>& values) { return Host(compiler::DType::kFloat32, values); }

std::vector<ProgramCase> ProgramCases() {
  std::vector<ProgramCase> all = OldestCases();
  for (auto more : {LegacyCases(), LinearCases(), EdgeCases(), WaveCases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace kiln::testing
