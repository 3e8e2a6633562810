#include "compiler/kernel/dots.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/interp/kernel_eval.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kLanes = 4, kDepth = 8;
constexpr DotUnits kUnits = {.lanes = kLanes, .bytes = true, .bfloats = true};

bool HasDots(UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  return std::any_of(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::WMMA; });
}

// out[n] = sum over k of a[k] * b[k][n]: b in words, lanes along n.
class DotsTest : public testing::Test {
 protected:
  UOp* Param(uint32_t slot, DType dtype, int64_t size) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, dtype});
  }
  UOp* Load(UOp* param, UOp* index) { return graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {param, index})}); }

  UOp* Kernel(DType a_type, DType b_type, DType wide, bool words) {
    UOp* lanes = graph_.Make(Op::RANGE, {Idx(graph_, kLanes)}, RangeArg{kLaneIds + 2, AxisType::kUpcast});
    const int64_t terms = DotTerms(a_type);
    UOp* loop = graph_.Make(Op::RANGE, {Idx(graph_, kDepth / terms)}, RangeArg{graph_.NextId(), AxisType::kReduce});
    UOp* four = graph_.Make(Op::RANGE, {Idx(graph_, terms)}, RangeArg{kLaneIds + 1, AxisType::kUnroll});
    UOp* k = Add(graph_, Mul(graph_, loop, Idx(graph_, terms)), four);
    UOp* a = Load(Param(1, a_type, kDepth), k);
    UOp* b = Load(Param(2, b_type, kDepth * kLanes), Add(graph_, Mul(graph_, k, Idx(graph_, kLanes)), lanes));
    EXPECT_EQ(DotLanesIn(b), four);
    if (words) b = FromWord(graph_, ToWord(graph_, b, four), four, b_type);
    UOp* product = Mul(graph_, Cast(graph_, a, wide), Cast(graph_, b, wide));
    const DType reduced = IsFloat(wide) ? wide : DType::kInt32;
    UOp* sum = graph_.Make(Op::REDUCE, {Cast(graph_, product, reduced), loop, four}, ReduceArg{Op::ADD, {}});
    UOp* place = graph_.Make(Op::INDEX, {Param(0, reduced, kLanes), lanes});
    UOp* end = graph_.Make(Op::END, {graph_.Make(Op::STORE, {place, sum}), lanes});
    return Expand(graph_, graph_.Make(Op::SINK, {end}));
  }

  static std::vector<uint64_t> Run(UOp* kernel, DType a_type, DType b_type) {
    const auto byte = [](DType dtype, int64_t i) {
      // Small integers: their products and sums are exact.
      if (IsFloat(dtype)) return EvalScalar(Op::CAST, DType::kInt32, dtype, {static_cast<uint64_t>(i * 37 % 50)});
      const int64_t value = i % 3 == 0 ? 0x80 : i % 3 == 1 ? 0x7F : (i * 37) & 0xFF;
      return WrapInt(dtype, static_cast<uint64_t>(value));
    };
    KernelMemory memory;
    memory[0].assign(kLanes, 0);
    for (int64_t i = 0; i < kDepth; ++i) memory[1].push_back(byte(a_type, i));
    for (int64_t i = 0; i < kDepth * kLanes; ++i) memory[2].push_back(byte(b_type, i + 1));
    const absl::Status status = EvalKernel(kernel, memory);
    EXPECT_TRUE(status.ok()) << status;
    return memory[0];
  }

  Graph graph_;
};

TEST_F(DotsTest, ChangeNoValue) {
  for (const DType a : {DType::kInt8, DType::kUint8}) {
    for (const DType b : {DType::kInt8, DType::kUint8}) {
      UOp* kernel = Kernel(a, b, DType::kInt32, true);
      UOp* dots = SelectDots(graph_, kernel, kUnits);
      EXPECT_TRUE(HasDots(dots));
      EXPECT_EQ(Run(dots, a, b), Run(kernel, a, b)) << Name(a) << " by " << Name(b);
    }
  }
}

TEST_F(DotsTest, NoneOfOperandsThatDoNotLieInWords) {
  UOp* kernel = Kernel(DType::kInt8, DType::kInt8, DType::kInt32, false);
  EXPECT_EQ(SelectDots(graph_, kernel, kUnits), kernel);
  kernel = Kernel(DType::kInt8, DType::kInt8, DType::kInt32, true);
  EXPECT_EQ(SelectDots(graph_, kernel, {.lanes = 2 * kLanes, .bytes = true}),
            kernel);  // of other lanes than the target's
}

TEST_F(DotsTest, NoneOfProductsThatWrap) {
  EXPECT_TRUE(HasDots(SelectDots(graph_, Kernel(DType::kInt8, DType::kInt8, DType::kInt16, true), kUnits)));
  EXPECT_TRUE(HasDots(SelectDots(graph_, Kernel(DType::kUint8, DType::kInt8, DType::kInt16, true), kUnits)));
  EXPECT_TRUE(HasDots(SelectDots(graph_, Kernel(DType::kUint8, DType::kUint8, DType::kUint16, true), kUnits)));
  for (const auto& [a, b, wide] :
       {std::tuple{DType::kUint8, DType::kUint8, DType::kInt16}, {DType::kInt8, DType::kUint8, DType::kUint16}}) {
    UOp* kernel = Kernel(a, b, wide, true);
    EXPECT_EQ(SelectDots(graph_, kernel, kUnits), kernel);
  }
}

TEST_F(DotsTest, OfBfloatsOnlyWhereTheUnitsHaveThem) {
  UOp* kernel = Kernel(DType::kBfloat16, DType::kBfloat16, DType::kFloat32, true);
  EXPECT_EQ(SelectDots(graph_, kernel, {.lanes = kLanes, .bytes = true}), kernel);
  UOp* dots = SelectDots(graph_, kernel, kUnits);
  EXPECT_TRUE(HasDots(dots));
  EXPECT_EQ(Run(dots, DType::kBfloat16, DType::kBfloat16), Run(kernel, DType::kBfloat16, DType::kBfloat16));
}

TEST(DotUnitsTest, AreTheTargets) {
  v1::Target target;
  target.mutable_tuning()->set_vector_bytes(64);
  EXPECT_EQ(DotUnitsOf(target).lanes, 0);
  *target.add_features() = "-avx512vnni";
  EXPECT_EQ(DotUnitsOf(target).lanes, 0);
  *target.add_features() = "+avx512vnni";
  EXPECT_EQ(DotUnitsOf(target).lanes, 16);
  EXPECT_TRUE(DotUnitsOf(target).bytes);
  EXPECT_FALSE(DotUnitsOf(target).bfloats);
  *target.add_features() = "+avx512bf16";
  EXPECT_TRUE(DotUnitsOf(AllowedTarget(target, true)).bfloats);
  EXPECT_FALSE(DotUnitsOf(AllowedTarget(target, false)).bfloats);
  EXPECT_TRUE(DotUnitsOf(AllowedTarget(target, false)).bytes);
  target.mutable_tuning()->set_vector_bytes(32);  // kept to half vectors
  EXPECT_EQ(DotUnitsOf(target).lanes, 0);
}

}  // namespace
}  // namespace kiln::compiler
