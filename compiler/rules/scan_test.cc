#include "compiler/rules/scan.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kSize = 64;

class ScanTest : public ::testing::Test {
 protected:
  UOp* Range(int64_t size, int64_t id, AxisType type) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{id, type});
  }
  UOp* Load(UOp* place) {
    UOp* x = graph_.Make(Op::PARAM, {ShapeSource(graph_, {kSize})}, BufferArg{1, DType::kFloat32});
    return graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {x, place})});
  }
  UOp* Plus(UOp* x, int64_t by) { return Add(graph_, x, Idx(graph_, by)); }
  UOp* Zero() { return ConstNumber(graph_, DType::kFloat32, 0); }
  // The scan of the sum of `value` over `r`, along i.
  std::optional<Scan> Of(UOp* value, UOp* r) {
    Rewriter simplify(SymbolicRules(), graph_);
    return ScanOf(graph_, simplify, graph_.Make(Op::REDUCE, {value, r}, ReduceArg{Op::ADD, {}}), i_);
  }

  Graph graph_;
  UOp* i_ = Range(kSize, 0, AxisType::kLoop);
  UOp* r_ = Range(kSize, 1, AxisType::kReduce);
};

TEST_F(ScanTest, Triangle) {
  const std::optional<Scan> up = Of(Where(graph_, Lt(graph_, i_, r_), Zero(), Load(r_)), r_);
  ASSERT_TRUE(up.has_value());
  EXPECT_FALSE(up->descending);
  EXPECT_EQ(up->element, Load(i_));
  const std::optional<Scan> down = Of(Where(graph_, Lt(graph_, r_, i_), Zero(), Load(r_)), r_);
  ASSERT_TRUE(down.has_value());
  EXPECT_TRUE(down->descending);
  EXPECT_EQ(down->element, Load(i_));
}

TEST_F(ScanTest, PaddedWindow) {
  UOp* place = Add(graph_, i_, r_);
  UOp* value = Where(graph_, Lt(graph_, place, Idx(graph_, kSize - 1)), Zero(), Load(Plus(place, 1 - kSize)));
  const std::optional<Scan> scan = Of(value, r_);
  ASSERT_TRUE(scan.has_value());
  EXPECT_FALSE(scan->descending);
  EXPECT_EQ(scan->element, Load(i_));
}

TEST_F(ScanTest, NoScan) {
  // A window that elements leave.
  UOp* short_window = Range(3, 2, AxisType::kReduce);
  UOp* place = Add(graph_, i_, short_window);
  EXPECT_FALSE(Of(Where(graph_, Lt(graph_, place, Idx(graph_, kSize)), Load(place), Zero()), short_window).has_value());
  // A band.
  UOp* band = And(graph_, Lt(graph_, r_, Plus(i_, 1)), Lt(graph_, i_, Plus(r_, 5)));
  EXPECT_FALSE(Of(Where(graph_, band, Load(r_), Zero()), r_).has_value());
  // Iterations that differ by more than one element.
  UOp* twice = Lt(graph_, r_, Mul(graph_, i_, Idx(graph_, 2)));
  EXPECT_FALSE(Of(Where(graph_, twice, Load(r_), Zero()), r_).has_value());
  // Elements that depend on the iteration.
  UOp* product = Mul(graph_, Load(r_), Load(i_));
  EXPECT_FALSE(Of(Where(graph_, Lt(graph_, i_, r_), Zero(), product), r_).has_value());
  // No identity of the reduction outside.
  UOp* one = ConstNumber(graph_, DType::kFloat32, 1);
  EXPECT_FALSE(Of(Where(graph_, Lt(graph_, i_, r_), one, Load(r_)), r_).has_value());
}

}  // namespace
}  // namespace kiln::compiler
