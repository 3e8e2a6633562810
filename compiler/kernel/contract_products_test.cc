#include "compiler/kernel/contract_products.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class ContractProductsTest : public testing::Test {
 protected:
  UOp* Load(uint32_t slot, DType dtype) {
    UOp* param = graph_.Make(Op::PARAM, {ShapeSource(graph_, {8})}, BufferArg{slot, dtype});
    return graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {param, loop_})});
  }
  UOp* Wide(UOp* x) { return Cast(graph_, x, DType::kFloat32); }
  UOp* Kernel(UOp* value, Op reduce_op = Op::ADD) {
    UOp* sum = graph_.Make(Op::REDUCE, {value, loop_}, ReduceArg{reduce_op, {}});
    UOp* out = graph_.Make(Op::PARAM, {ShapeSource(graph_, {1})}, BufferArg{0, sum->dtype()});
    return graph_.Make(Op::SINK, {graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {out, Idx(graph_, 0)}), sum})});
  }

  Graph graph_;
  UOp* const loop_ = graph_.Make(Op::RANGE, {Idx(graph_, 8)}, RangeArg{graph_.NextId(), AxisType::kReduce});
};

TEST_F(ContractProductsTest, ProductsAreNotRounded) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    UOp* product = Mul(graph_, Wide(Load(1, dtype)), Wide(Load(2, dtype)));
    EXPECT_EQ(ContractProducts(graph_, Kernel(Wide(Cast(graph_, product, dtype)))), Kernel(product));
  }
}

TEST_F(ContractProductsTest, NothingElseChanges) {
  const DType dtype = DType::kBfloat16;
  UOp* a = Wide(Load(1, dtype));
  UOp* b = Wide(Load(2, dtype));
  UOp* product = Mul(graph_, a, b);
  UOp* inexact = Mul(graph_, a, Load(3, DType::kFloat32));
  for (UOp* kernel :
       {Kernel(product), Kernel(Wide(Cast(graph_, inexact, dtype))),
        Kernel(Wide(Cast(graph_, Add(graph_, a, b), dtype))), Kernel(Wide(Cast(graph_, product, dtype)), Op::MAX)})
    EXPECT_EQ(ContractProducts(graph_, kernel), kernel);
}

}  // namespace
}  // namespace kiln::compiler
