#include "compiler/structure/entry.h"

#include <gtest/gtest.h>

#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

class EntryTest : public testing::Test {
 protected:
  UOp* Read(absl::string_view text) {
    const auto wire = ParseGraph(text);
    EXPECT_TRUE(wire.ok()) << wire.status();
    const auto root = FromWire(*wire, Limits(), graph_);
    EXPECT_TRUE(root.ok()) << root.status();
    return *root;
  }
  Graph graph_;
};

TEST_F(EntryTest, ASinkOfTensorsIsATensorGraph) {
  EXPECT_EQ(LevelOf(Read(R"(
    0 CONST [] weakint 4
    1 PARAM : float32 [0] slot=0
    2 STORE [1, 1]
    3 SINK [2]
  )")),
            EntryLevel::kTensor);
}

TEST_F(EntryTest, ARangeMakesAKernel) {
  UOp* store = graph_.Make(Op::GROUP, {});
  UOp* bound = graph_.Make(Op::CONST, {}, ConstArg{DType::kInt64, 4, false});
  UOp* loop = graph_.Make(Op::RANGE, {bound}, RangeArg{0, AxisType::kLoop});
  UOp* devices = graph_.Make(Op::RANGE, {bound}, RangeArg{0, AxisType::kDevice});
  EXPECT_EQ(LevelOf(graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, loop})})), EntryLevel::kKernel);
  EXPECT_EQ(LevelOf(graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, devices})})), EntryLevel::kTensor);
  EXPECT_EQ(LevelOf(graph_.Make(Op::LINEAR, {store})), EntryLevel::kProgram);
}

TEST_F(EntryTest, KernelInfoMakesAKernel) {
  UOp* sink = graph_.Make(Op::SINK, {}, KernelArg{"fill", {{v1::OptOp::SPLIT, 0, {4, v1::AXIS_UPCAST}}}, true});
  EXPECT_EQ(LevelOf(sink), EntryLevel::kKernel);
  // It is what it was once it has been sent.
  const auto again = FromWire(ToWire(sink), Limits(), graph_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, sink);
}

TEST_F(EntryTest, ACallsBodySaysNothingAboutItsCaller) {
  UOp* bound = graph_.Make(Op::CONST, {}, ConstArg{DType::kInt64, 4, false});
  UOp* loop = graph_.Make(Op::RANGE, {bound}, RangeArg{0, AxisType::kLoop});
  UOp* body = graph_.Make(Op::SINK, {graph_.Make(Op::END, {graph_.Make(Op::GROUP, {}), loop})});
  EXPECT_EQ(LevelOf(body), EntryLevel::kKernel);
  EXPECT_EQ(LevelOf(graph_.Make(Op::SINK, {graph_.Make(Op::CALL, {body})})), EntryLevel::kTensor);
}

}  // namespace
}  // namespace kiln::compiler
