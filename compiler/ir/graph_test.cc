#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

TEST(Graph, EqualNodesAreOnePointer) {
  Graph graph;
  UOp* a = Idx(graph, 3);
  UOp* b = Idx(graph, 4);
  EXPECT_EQ(Idx(graph, 3), a);
  EXPECT_NE(a, b);
  EXPECT_EQ(Add(graph, a, b), Add(graph, a, b));
  EXPECT_NE(Add(graph, a, b), Add(graph, b, a));  // not even if the op is commutative
  EXPECT_NE(Cast(graph, a, DType::kInt32), Cast(graph, a, DType::kInt8));
  EXPECT_NE(ConstInt(graph, DType::kInt32, 3), a);
}

TEST(Graph, FloatConstantsAreToldApartByTheirBits) {
  Graph graph;
  EXPECT_NE(ConstNumber(graph, DType::kFloat32, 0.0), ConstNumber(graph, DType::kFloat32, -0.0));
  EXPECT_EQ(ConstNumber(graph, DType::kFloat32, 0.5), ConstBits(graph, DType::kFloat32, 0x3F000000));
}

TEST(Graph, AFailedNodeLeavesNothingBehind) {
  Graph graph;
  UOp* a = Idx(graph, 3);
  const size_t size = graph.size();
  const auto made = graph.TryMake(Op::ADD, {a});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(DetailOf(made.status())->code(), v1::WRONG_SOURCE_COUNT);
  EXPECT_EQ(graph.size(), size);
}

TEST(Graph, IdsGrowFromSourcesToUsers) {
  Graph graph;
  UOp* sum = Add(graph, Idx(graph, 1), Mul(graph, Idx(graph, 2), Idx(graph, 3)));
  for (UOp* uop : Toposort(sum)) {
    for (UOp* source : uop->src()) EXPECT_LT(source->id(), uop->id());
  }
}

TEST(Graph, NextIdIsAboveWhatAClientMayChoose) {
  Graph graph;
  const int64_t first = graph.NextId();
  EXPECT_GE(first, 1 << 16);
  EXPECT_GT(graph.NextId(), first);
}

TEST(Graph, OriginsAreInheritedHoweverManyThereAre) {
  Graph graph;
  UOp* made = Idx(graph, 0);
  graph.SetOrigin(made, 7);
  for (int64_t i = 1; i < 5000; ++i) {
    UOp* from = made;
    made = Idx(graph, i);
    graph.InheritOrigin(made, from);
    EXPECT_EQ(DetailOf(graph.Locate(MakeError(v1::BAD_ARGUMENT, "it"), made))->node(), 7u);
  }
}

TEST(Toposort, SourcesBeforeUsersEachOnce) {
  Graph graph;
  UOp* shared = Add(graph, Idx(graph, 1), Idx(graph, 2));
  UOp* root = Mul(graph, shared, shared);
  EXPECT_EQ(Toposort(root), (std::vector<UOp*>{Idx(graph, 1), Idx(graph, 2), shared, root}));
}

TEST(Toposort, DepthCostsNoStack) {
  Graph graph;
  UOp* root = Idx(graph, 0);
  for (int i = 0; i < 300'000; ++i) root = Add(graph, root, Idx(graph, 1));
  const std::vector<UOp*> order = Toposort(root);
  EXPECT_EQ(order.size(), 300'002u);
  EXPECT_EQ(Depth(order), 300'001u);
}

}  // namespace
}  // namespace kiln::compiler
