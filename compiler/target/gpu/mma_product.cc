#include "compiler/target/gpu/mma_product.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "compiler/ir/dtype.h"
#include "compiler/target/gpu/mma_copy.h"
#include "compiler/target/gpu/stage_ring.h"
#include "compiler/target/gpu/tensor_cores.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {
namespace {

// Of any dtype: where numbers are longer, there are fewer of them along k.
constexpr int64_t kItemBytes = 2, kStepBytes = 32;

int64_t StageBytes(const MatrixTile& tile) { return (tile.m + tile.n) * tile.k * kItemBytes; }

// The instruction for 32 bytes along k. That of float64 is of 8 rows, others of 16.
WmmaArg InstructionFor(DType in) {
  const int64_t k = kStepBytes / ItemSize(in);
  return {8, in == DType::kFloat64 ? 8 : 16, k, in, SumOf(in), 32};
}

class MmaProduct {
 public:
  MmaProduct(llvm::IRBuilder<>& builder, absl::string_view architecture, const GroupProduct& product,
             const ProductSide& a, const ProductSide& b, llvm::Value* item, llvm::Value* shared, uint64_t alignment)
      : builder_(builder),
        architecture_(architecture),
        product_(product),
        tile_(*product.tile),
        down_(tile_.lanes[0].size),
        across_(tile_.lanes[2].size),
        a_(builder, product, product.a, a, false, 0, item, shared, alignment),
        b_(builder, product, product.b, b, true, tile_.m * tile_.k * kItemBytes, item, shared, alignment) {
    KILN_CHECK(across_ % 2 == 0);
    // The digits above those of a warp.
    std::array<llvm::Value*, 2> corner = {I32(0), I32(0)};
    int64_t below = 32;
    for (size_t i = 2; i < tile_.items.size(); ++i) {
      const TileDigit& digit = tile_.items[i];
      llvm::Value* value = builder_.CreateURem(builder_.CreateUDiv(item, I32(below)), I32(digit.size));
      corner[digit.column] = builder_.CreateAdd(corner[digit.column], builder_.CreateMul(value, I32(digit.step)));
      below *= digit.size;
    }
    a_.PlaceFragments(corner[0], down_);
    b_.PlaceFragments(corner[1], across_ / 2);
  }

  std::vector<llvm::Value*> Run() {
    const int64_t depth = DepthOf(tile_, product_.in);
    const StageRing ring = {(product_.reduced + depth - 1) / depth, tile_.stages, StageBytes(tile_)};
    const auto all = static_cast<size_t>(down_ * across_ * 4);
    sums_ = EmitStageRing(
        builder_, ring,
        std::vector<llvm::Value*>(
            all, llvm::Constant::getNullValue(RegisterType(builder_.getContext(), SumOf(product_.in)))),
        [&](llvm::Value* iteration, llvm::Value* stage) {
          a_.Copy(iteration, stage);
          b_.Copy(iteration, stage);
        },
        [&] {
          a_.Finish();
          b_.Finish();
        },
        [&](llvm::Value* stage, std::vector<llvm::Value*>& sums) {
          for (int64_t step = 0; step < tile_.k * kItemBytes / kStepBytes; ++step) Multiply(stage, step, sums);
        });
    return Elements();
  }

 private:
  llvm::Value* I32(int64_t number) { return builder_.getInt32(static_cast<uint32_t>(number)); }

  void Multiply(llvm::Value* stage, int64_t step, std::vector<llvm::Value*>& sums) {
    std::vector<std::vector<llvm::Value*>> a, b;
    for (int64_t i = 0; i < down_; ++i) a.push_back(a_.Fragments(stage, i, step));
    for (int64_t j = 0; j < across_ / 2; ++j) b.push_back(b_.Fragments(stage, j, step));
    for (size_t i = 0; i < static_cast<size_t>(down_); ++i) {
      for (size_t j = 0; j < static_cast<size_t>(across_); ++j) {
        llvm::Value** sum = &sums[(i * static_cast<size_t>(across_) + j) * 4];
        MultiplyBlock(a[i], &b[j / 2][j % 2 * b[j / 2].size() / 2], sum);
      }
    }
  }

  // 16 rows by 8 columns: registers of A, those of B, half of what 16 columns have, and four sums.
  void MultiplyBlock(const std::vector<llvm::Value*>& a, llvm::Value** b, llvm::Value** sum) {
    const WmmaArg arg = InstructionFor(product_.in);
    const auto parts = static_cast<size_t>(16 / arg.m), held = a.size() / parts, given = 4 / parts;
    for (size_t part = 0; part < parts; ++part) {
      std::vector<llvm::Value*> registers(a.begin() + part * held, a.begin() + (part + 1) * held);
      registers.insert(registers.end(), b, b + a.size() / 2);
      registers.insert(registers.end(), sum + part * given, sum + (part + 1) * given);
      const std::vector<llvm::Value*> made = EmitMma(builder_, architecture_, arg, registers);
      std::copy(made.begin(), made.end(), sum + part * given);
    }
  }

  // By the tile's lanes: 16 rows, 8 rows, 8 columns, a column.
  std::vector<llvm::Value*> Elements() const {
    std::vector<llvm::Value*> elements;
    for (int64_t i = 0; i < down_; ++i) {
      for (int64_t half = 0; half < 2; ++half) {
        for (int64_t j = 0; j < across_; ++j) {
          for (int64_t e = 0; e < 2; ++e)
            elements.push_back(sums_[static_cast<size_t>((i * across_ + j) * 4 + half * 2 + e)]);
        }
      }
    }
    return elements;
  }

  llvm::IRBuilder<>& builder_;
  const absl::string_view architecture_;
  const GroupProduct& product_;
  const MatrixTile& tile_;
  const int64_t down_, across_;  // blocks of 16 rows, and of 8 columns, of a warp
  MmaOperand a_, b_;
  std::vector<llvm::Value*> sums_;  // of each block, as the instruction has them
};

}  // namespace

int64_t MmaSharedBytes(const MatrixTile& tile) { return tile.stages * StageBytes(tile); }

std::vector<llvm::Value*> EmitMmaProduct(llvm::IRBuilder<>& builder, absl::string_view architecture,
                                         const GroupProduct& product, const ProductSide& a, const ProductSide& b,
                                         llvm::Value* item, llvm::Value* shared, uint64_t alignment) {
  return MmaProduct(builder, architecture, product, a, b, item, shared, alignment).Run();
}

}  // namespace kiln::compiler
