#include "compiler/opt/float8_value.h"

#include <gtest/gtest.h>

#include "compiler/ir/build.h"
#include "compiler/rules/decompose.h"

namespace kiln::compiler {
namespace {

class Float8ValueTest : public testing::Test {
 protected:
  UOp* At(uint32_t slot, DType dtype) {
    UOp* storage = graph_.Make(Op::PARAM, {ShapeSource(graph_, {8})}, BufferArg{slot, dtype});
    return graph_.Make(Op::INDEX, {storage, Idx(graph_, 3)});
  }
  // What a kernel has of it when it is scheduled.
  UOp* Decomposed(UOp* value) {
    UOp* sink = graph_.Make(Op::SINK, {graph_.Make(Op::STORE, {At(0, value->dtype()), value})});
    return Decompose(graph_, sink, {})->src(0)->src(1);
  }
  UOp* Read(DType dtype) { return graph_.Make(Op::LOAD, {At(1, dtype)}); }

  Graph graph_;
};

TEST_F(Float8ValueTest, IsSeen) {
  for (const DType format : {DType::kFloat8E4m3, DType::kFloat8E5m2, DType::kFloat8E4m3Fnuz, DType::kFloat8E5m2Fnuz}) {
    const auto value = Float8ValueOf(Decomposed(Cast(graph_, Read(format), DType::kFloat32)));
    ASSERT_TRUE(value.has_value()) << Name(format);
    EXPECT_EQ(value->format, format);
    EXPECT_EQ(value->load, Read(DType::kUint8));
  }
}

TEST_F(Float8ValueTest, IsNothingElse) {
  const auto none = [&](UOp* value) { return !Float8ValueOf(value).has_value(); };
  UOp* value = Decomposed(Cast(graph_, Read(DType::kFloat8E4m3), DType::kFloat32));
  EXPECT_TRUE(none(Cast(graph_, Read(DType::kUint8), DType::kFloat32)));
  EXPECT_TRUE(none(Mul(graph_, value, value)));
  EXPECT_TRUE(none(Add(graph_, value, Read(DType::kFloat32))));
  EXPECT_TRUE(none(Read(DType::kFloat32)));
  UOp* deep = Cast(graph_, Read(DType::kUint8), DType::kFloat32);
  for (int i = 0; i < 100'000; ++i) deep = graph_.Make(Op::SIN, {deep});
  EXPECT_TRUE(none(deep));
}

}  // namespace
}  // namespace kiln::compiler
