#include "compiler/schedule/store_order.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class StoreOrderTest : public ::testing::Test {
 protected:
  UOp* Param(uint32_t slot) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {4})}, BufferArg{slot, DType::kInt32});
  }
  UOp* Store(UOp* target, UOp* value) { return graph_.Make(Op::STORE, {target, value}); }
  UOp* After(UOp* x, UOp* dep) { return graph_.Make(Op::AFTER, {x, dep}); }
  UOp* Number(int64_t n) { return ConstInt(graph_, DType::kInt32, n); }
  Graph graph_;
};

TEST_F(StoreOrderTest, AnAfterSeesItsStoreAndAllBefore) {
  UOp* p = Param(0);
  UOp* first = Store(p, Number(1));
  UOp* second = Store(After(p, first), Number(2));
  UOp* a = After(p, first);
  UOp* b = After(p, second);
  const StoreOrder order(graph_.Make(Op::SINK, {a, b}));
  EXPECT_EQ(order.StoresTo(p), (std::vector<UOp*>{first, second}));
  EXPECT_EQ(order.StateOf(a), 1u);
  EXPECT_EQ(order.StateOf(b), 2u);
}

TEST_F(StoreOrderTest, OnlyStoresToItsOwnStorageCount) {
  UOp *p = Param(0), *q = Param(1);
  UOp* to_p = Store(p, Number(1));
  UOp* to_q = Store(q, After(p, to_p));
  UOp* p_after_q = After(p, to_q);  // which came after the STORE to p
  UOp* q_after_p = After(q, to_p);
  const StoreOrder order(graph_.Make(Op::SINK, {p_after_q, q_after_p}));
  EXPECT_EQ(order.StateOf(p_after_q), 1u);
  EXPECT_EQ(order.StateOf(q_after_p), 0u);
}

TEST_F(StoreOrderTest, StoresInNoOrderHappenInTheOrderOfTheWalk) {
  UOp* p = Param(0);
  UOp* made_first = Store(p, Number(1));
  UOp* made_second = Store(p, Number(2));
  const StoreOrder order(graph_.Make(Op::SINK, {made_second, made_first}));
  EXPECT_EQ(order.StoresTo(p), (std::vector<UOp*>{made_second, made_first}));
}

TEST_F(StoreOrderTest, AComputedValueHasNoStates) {
  UOp* p = Param(0);
  UOp* store = Store(p, Number(1));
  UOp* after = After(Add(graph_, p, p), store);
  EXPECT_EQ(StoreOrder(graph_.Make(Op::SINK, {after})).StateOf(after), 0u);
}

}  // namespace
}  // namespace kiln::compiler
