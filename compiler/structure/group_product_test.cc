#include "compiler/structure/group_product.h"

#include <gtest/gtest.h>

#include <vector>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

// A wave's product of fragments that are read by lists of indices, as long as what a group's product says of a side.
TEST(GroupProduct, IsNoProductByAWave) {
  Graph graph;
  UOp* item = graph.Make(Op::RANGE, {Idx(graph, 32)}, RangeArg{0, AxisType::kLocal});
  const auto fragment = [&](uint32_t slot, DType dtype, int64_t elements) {
    UOp* storage = graph.Make(Op::PARAM, {ShapeSource(graph, {4096})}, BufferArg{slot, dtype});
    std::vector<UOp*> places;
    for (int64_t i = 0; i < elements; ++i) places.push_back(Add(graph, item, Idx(graph, i)));
    return graph.Make(Op::INDEX, {storage, graph.Make(Op::STACK, places)});
  };
  UOp* wave =
      graph.Make(Op::WMMA, {fragment(1, DType::kInt8, 16), fragment(2, DType::kInt8, 8), fragment(0, DType::kInt32, 4)},
                 WmmaArg{8, 16, 32, DType::kInt8, DType::kInt32, 32});
  EXPECT_FALSE(GroupProductOf(wave).has_value());
  EXPECT_FALSE(HasGroupProduct(wave));
}

}  // namespace
}  // namespace kiln::compiler
