#include "compiler/target/gpu/fma_product.h"

#include <array>
#include <string>

#include "base/check.h"
#include "compiler/target/gpu/mma_copy.h"
#include "compiler/target/gpu/stage_ring.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kItemBytes = 4;
constexpr int64_t kRun = 4;   // neighbours that an item has, and numbers that it reads at once
constexpr int64_t kRuns = 2;  // such runs of an item, half a tile apart

int64_t SideBytes(const MatrixTile& tile, int64_t rows) { return rows * tile.k * kItemBytes; }
int64_t StageBytes(const MatrixTile& tile) { return SideBytes(tile, tile.m) + SideBytes(tile, tile.n); }

// An item's numbers of one operand.
class Numbers {
 public:
  // Of `rows` rows, of which the item's first is `row`, a multiple of four.
  Numbers(llvm::IRBuilder<>& builder, MmaOperand& operand, const MatrixTile& tile, int64_t rows, llvm::Value* row,
          llvm::Value* shared)
      : builder_(builder), operand_(operand), rows_(rows), shared_(shared) {
    // One of a row of the stage, and of its pieces, is exchanged with others as all that are a multiple of four rows
    // further: those lie a constant number of bytes apart.
    llvm::Value* piece = builder_.CreateUDiv(row, I32(kRun));
    for (int64_t k = 0; k < tile.k; k += kRun) {
      for (int64_t line = 0; line < (operand_.along_k() ? kRun : 1); ++line) {
        places_.push_back(operand_.along_k() ? operand_.ByteOf(builder_.CreateAdd(row, I32(line)), I32(k / kRun))
                                             : operand_.ByteOf(I32(k), piece));
      }
    }
  }

  // Those of `kRun` neighbours of k from `k` on, a multiple of that: by neighbour, then by the item's rows.
  using Block = std::array<std::array<llvm::Value*, kRuns * kRun>, kRun>;
  Block Load(llvm::Value* stage, int64_t k) {
    Block block;
    auto* four = llvm::FixedVectorType::get(builder_.getFloatTy(), kRun);
    for (int64_t run = 0; run < kRuns; ++run) {
      for (int64_t line = 0; line < kRun; ++line) {
        const int64_t first = operand_.along_k() ? k + line : k / kRun;
        const int64_t further = operand_.along_k() ? run * rows_ / kRuns * operand_.row_bytes()
                                                   : run * rows_ / kRuns * kItemBytes + line * operand_.row_bytes();
        llvm::Value* byte = builder_.CreateAdd(places_[static_cast<size_t>(first)], stage);
        llvm::Value* place = builder_.CreateGEP(builder_.getInt8Ty(), shared_, byte);
        place = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), place, static_cast<uint64_t>(further));
        llvm::Value* loaded = builder_.CreateAlignedLoad(four, place, llvm::Align(kRun * kItemBytes));
        for (int64_t i = 0; i < kRun; ++i) {
          const auto at_k = static_cast<size_t>(operand_.along_k() ? i : line);
          const auto at_row = static_cast<size_t>(run * kRun + (operand_.along_k() ? line : i));
          block[at_k][at_row] = builder_.CreateExtractElement(loaded, static_cast<uint64_t>(i));
        }
      }
    }
    return block;
  }

 private:
  llvm::Value* I32(int64_t number) { return builder_.getInt32(static_cast<uint32_t>(number)); }

  llvm::IRBuilder<>& builder_;
  MmaOperand& operand_;
  const int64_t rows_;
  llvm::Value* shared_;
  std::vector<llvm::Value*> places_;  // by four of k, and by the row among four of a stage whose rows are of k
};

}  // namespace

int64_t FmaSharedBytes(const MatrixTile& tile) { return tile.stages * StageBytes(tile); }

std::vector<llvm::Value*> EmitFmaProduct(llvm::IRBuilder<>& builder, const GroupProduct& product, const ProductSide& a,
                                         const ProductSide& b, llvm::Value* item, llvm::Value* shared,
                                         uint64_t alignment) {
  const MatrixTile& tile = *product.tile;
  const auto i32 = [&](int64_t number) { return builder.getInt32(static_cast<uint32_t>(number)); };
  MmaOperand of_a(builder, product, product.a, a, false, 0, item, shared, alignment);
  MmaOperand of_b(builder, product, product.b, b, true, SideBytes(tile, tile.m), item, shared, alignment);
  std::array<llvm::Value*, 2> corner = {i32(0), i32(0)};  // row and column
  int64_t below = 1;
  for (const TileDigit& digit : tile.items) {
    llvm::Value* value = builder.CreateURem(builder.CreateUDiv(item, i32(below)), i32(digit.size));
    corner[digit.column] = builder.CreateAdd(corner[digit.column], builder.CreateMul(value, i32(digit.step)));
    below *= digit.size;
  }
  Numbers rows(builder, of_a, tile, tile.m, corner[0], shared), columns(builder, of_b, tile, tile.n, corner[1], shared);
  // So many items together have 168 registers each, which is enough; else the assembler takes all that one group
  // leaves.
  constexpr int64_t kItemsTogether = 384;
  builder.GetInsertBlock()->getParent()->addFnAttr("nvvm.minctasm", std::to_string(kItemsTogether / tile.threads));
  constexpr size_t kSide = kRuns * kRun;
  const StageRing ring = {(product.reduced + tile.k - 1) / tile.k, tile.stages, StageBytes(tile)};
  return EmitStageRing(
      builder, ring, std::vector<llvm::Value*>(kSide * kSide, llvm::ConstantFP::get(builder.getFloatTy(), 0)),
      [&](llvm::Value* iteration, llvm::Value* stage) {
        of_a.Copy(iteration, stage);
        of_b.Copy(iteration, stage);
      },
      [&] {
        of_a.Finish();
        of_b.Finish();
      },
      [&](llvm::Value* stage, std::vector<llvm::Value*>& sums) {
        for (int64_t k = 0; k < tile.k; k += kRun) {
          const Numbers::Block left = rows.Load(stage, k), right = columns.Load(stage, k);
          for (size_t at = 0; at < kRun; ++at) {
            for (size_t i = 0; i < kSide * kSide; ++i) {
              llvm::Value* factor = builder.CreateFMul(left[at][i / kSide], right[at][i % kSide]);
              sums[i] = builder.CreateFAdd(sums[i], factor);
            }
          }
        }
      });
}

}  // namespace kiln::compiler
