#include "compiler/kernel/tiles/core_products.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/interp/kernel_eval.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"
#include "compiler/structure/core_product.h"

namespace kiln::compiler {
namespace {

constexpr DotUnits kUnits = {.lanes = 16, .bytes = true, .bfloats = true, .byte_tiles = true, .bfloat_tiles = true};

std::optional<CoreProduct> ProductIn(UOp* sink) {
  for (const UOp* uop : Toposort(sink)) {
    if (const auto product = CoreProductOf(uop)) return product;
  }
  return std::nullopt;
}

// out[m][n] = sum over k of a[m][k] * b[k][n]: rows of a in memory as they are, b in words.
class CoreProductsTest : public testing::Test {
 protected:
  UOp* Param(uint32_t slot, DType dtype, int64_t size) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, dtype});
  }
  UOp* Load(UOp* param, UOp* index) { return graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {param, index})}); }
  UOp* Lane(int64_t dimension, int64_t size, AxisType type = AxisType::kUpcast) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{kLaneIds + dimension, type});
  }
  UOp* Times(UOp* x, int64_t factor) { return Mul(graph_, x, Idx(graph_, factor)); }

  UOp* Kernel(DType a_type, DType b_type, int64_t rows, int64_t vectors, int64_t words) {
    const int64_t terms = DotTerms(a_type), columns = 16 * vectors, depth = words * terms;
    const bool floats = IsFloat(a_type);
    const DType sum_type = floats ? DType::kFloat32 : DType::kInt32;
    UOp *row = Lane(0, rows), *vector = Lane(1, vectors), *neighbour = Lane(3, 16);
    UOp* term = Lane(2, terms, AxisType::kUnroll);
    UOp* loop = graph_.Make(Op::RANGE, {Idx(graph_, words)}, RangeArg{graph_.NextId(), AxisType::kReduce});
    UOp* column = Add(graph_, Times(vector, 16), neighbour);
    UOp* k = Add(graph_, Times(loop, terms), term);
    UOp* a = Load(Param(1, a_type, rows * depth), Add(graph_, Times(row, depth), k));
    UOp* word = Load(Param(2, DType::kUint32, words * columns), Add(graph_, Times(loop, columns), column));
    UOp* b = FromWord(graph_, word, term, b_type);
    UOp* product = Mul(graph_, Cast(graph_, a, sum_type), Cast(graph_, b, sum_type));
    UOp* sum = graph_.Make(Op::REDUCE, {product, loop, term}, ReduceArg{Op::ADD, {}});
    UOp* place = graph_.Make(Op::INDEX, {Param(0, sum_type, rows * columns), Add(graph_, Times(row, columns), column)});
    UOp* end = graph_.Make(Op::END, {graph_.Make(Op::STORE, {place, sum}), row, vector, neighbour});
    return graph_.Make(Op::SINK, {end});
  }

  std::vector<uint64_t> Run(UOp* kernel, DType a_type, int64_t rows, int64_t vectors, int64_t words) {
    const int64_t terms = DotTerms(a_type), columns = 16 * vectors;
    KernelMemory memory;
    memory[0].assign(static_cast<size_t>(rows * columns), 0);
    // Small integers: their products and sums are exact.
    for (int64_t i = 0; i < rows * words * terms; ++i) {
      const auto value = static_cast<uint64_t>(i * 37 % 50);
      memory[1].push_back(IsFloat(a_type) ? EvalScalar(Op::CAST, DType::kInt32, a_type, {value})
                                          : WrapInt(a_type, value + 100));
    }
    for (int64_t i = 0; i < words * columns; ++i) {
      uint64_t word = 0;
      for (int64_t t = 0; t < terms; ++t) {
        const auto value = static_cast<uint64_t>((i * terms + t) * 29 % 47);
        const uint64_t bits = IsFloat(a_type) ? EvalScalar(Op::CAST, DType::kInt32, a_type, {value}) : value + 110;
        word |= bits << (t * 32 / terms);
      }
      memory[2].push_back(word);
    }
    const absl::Status status = EvalKernel(Expand(graph_, kernel), memory);
    EXPECT_TRUE(status.ok()) << status;
    return memory[0];
  }

  Graph graph_;
};

TEST_F(CoreProductsTest, ChangeNoValue) {
  const std::pair<DType, DType> dtypes[] = {{DType::kBfloat16, DType::kBfloat16},
                                            {DType::kUint8, DType::kInt8},
                                            {DType::kInt8, DType::kInt8},
                                            {DType::kInt8, DType::kUint8},
                                            {DType::kUint8, DType::kUint8}};
  for (const auto& [a, b] : dtypes) {
    UOp* kernel = Kernel(a, b, 20, 2, 32);
    UOp* made = SelectCoreProducts(graph_, kernel, kUnits);
    const auto product = ProductIn(made);
    ASSERT_TRUE(product.has_value()) << Name(a) << " by " << Name(b);
    EXPECT_EQ(product->a.dtype, a);
    EXPECT_EQ(product->b.dtype, b);
    EXPECT_EQ(product->words, 16);
    EXPECT_EQ(product->down(), 2);
    EXPECT_EQ(product->RowsOf(1), 4);
    EXPECT_EQ(product->across(), 2);
    EXPECT_EQ(Run(made, a, 20, 2, 32), Run(kernel, a, 20, 2, 32)) << Name(a) << " by " << Name(b);
  }
}

TEST_F(CoreProductsTest, TakeAsManyWordsAsDivideTheLoop) {
  const auto product = ProductIn(SelectCoreProducts(graph_, Kernel(DType::kInt8, DType::kInt8, 16, 1, 24), kUnits));
  ASSERT_TRUE(product.has_value());
  EXPECT_EQ(product->words, 12);
  EXPECT_EQ(WordsOfTile(7), 7);
  EXPECT_EQ(WordsOfTile(17), 1);
  EXPECT_FALSE(
      ProductIn(SelectCoreProducts(graph_, Kernel(DType::kInt8, DType::kInt8, 16, 1, 17), kUnits)).has_value());
}

TEST_F(CoreProductsTest, NoneOfMoreTilesThanThereAreRegisters) {
  EXPECT_TRUE(FitsTiles(2, 2));
  EXPECT_TRUE(FitsTiles(1, 4));
  EXPECT_FALSE(FitsTiles(2, 3));
  UOp* kernel = Kernel(DType::kBfloat16, DType::kBfloat16, 48, 2, 16);
  EXPECT_EQ(SelectCoreProducts(graph_, kernel, kUnits), kernel);
}

TEST_F(CoreProductsTest, NoneWhereTheUnitTakesOtherNumbers) {
  DotUnits units = kUnits;
  units.bfloat_tiles = false;
  UOp* kernel = Kernel(DType::kBfloat16, DType::kBfloat16, 16, 2, 16);
  EXPECT_EQ(SelectCoreProducts(graph_, kernel, units), kernel);
  EXPECT_NE(SelectCoreProducts(graph_, kernel, kUnits), kernel);
}

}  // namespace
}  // namespace kiln::compiler
