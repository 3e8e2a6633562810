#include "compiler/target/gpu/mma_copy.h"

#include <algorithm>

#include "base/check.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kPieceBytes = 16;
constexpr int64_t kLeastCopy = 4;    // bytes that are copied past the registers
constexpr int64_t kBankBytes = 128;  // all banks of shared memory

}  // namespace

MmaOperand::MmaOperand(llvm::IRBuilder<>& builder, const GroupProduct& product, const GroupProduct::Side& side,
                       const ProductSide& given, bool is_b, int64_t begin, llvm::Value* item, llvm::Value* shared,
                       uint64_t alignment)
    : builder_(builder),
      product_(product),
      side_(side),
      is_b_(is_b),
      along_k_(side.step != 1 || side.step_k == 1),
      item_bytes_(Bits(product.in) / 8),
      piece_(kPieceBytes / item_bytes_),
      begin_(begin),
      rows_(is_b ? product.tile->n : product.tile->m),
      lines_(along_k_ ? rows_ : product.tile->k),
      length_(along_k_ ? product.tile->k : rows_),
      width_(alignment >= kPieceBytes ? std::min(NeighboursOf(side), piece_) : 1),
      pointer_(given.pointer),
      item_(item),
      shared_(shared) {
  const int64_t across = length_ / piece_, all = lines_ * across, threads = product.tile->threads;
  KILN_CHECK(all % threads == 0);
  llvm::Value* first = builder_.CreateTrunc(given.first, builder_.getInt32Ty());
  const bool whole = side.size % rows_ == 0;
  for (int64_t i = 0; i < all / threads; ++i) {
    llvm::Value* number = builder_.CreateAdd(item, I32(i * threads));
    Piece piece;
    piece.line = builder_.CreateUDiv(number, I32(across));
    llvm::Value* place = builder_.CreateURem(number, I32(across));
    piece.begin = builder_.CreateMul(place, I32(piece_));
    piece.into = ByteOf(piece.line, place);
    llvm::Value* row = along_k_ ? piece.line : piece.begin;
    llvm::Value* k = along_k_ ? piece.begin : piece.line;
    const auto times = [&](llvm::Value* value, int64_t step) {
      return builder_.CreateMul(builder_.CreateZExt(value, builder_.getInt64Ty()),
                                builder_.getInt64(static_cast<uint64_t>(step)));
    };
    llvm::Value* offset = builder_.CreateAdd(times(row, side.step), times(k, side.step_k));
    piece.source = builder_.CreateAdd(given.offset, offset);
    llvm::Value* left = builder_.CreateSub(I32(side.size), builder_.CreateAdd(first, row));
    piece.inside = along_k_ ? (whole ? nullptr : builder_.CreateICmpSGT(left, I32(0)))
                            : (whole ? I32(piece_) : Clamp(left, piece_));
    pieces_.push_back(piece);
  }
}

llvm::Value* MmaOperand::Clamp(llvm::Value* left, int64_t most) {
  left = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, left, I32(0));
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, I32(most));
}

llvm::Value* MmaOperand::ByteOf(llvm::Value* line, llvm::Value* piece) {
  // Rows shorter than all banks lie beside each other in them. The pieces in all banks are exchanged by the number of
  // the row, or of the four rows, as an item that does ordinary arithmetic has four that follow each other.
  const int64_t bytes = row_bytes(), together = std::max<int64_t>(1, kBankBytes / bytes);
  const int64_t one = std::max<int64_t>(together, product_.tile->unit == MatrixTile::kFma ? 4 : 1);
  llvm::Value* number = builder_.CreateURem(builder_.CreateUDiv(line, I32(one)), I32(kBankBytes / kPieceBytes));
  llvm::Value* beside = builder_.CreateMul(builder_.CreateURem(line, I32(together)), I32(bytes / kPieceBytes));
  llvm::Value* place = builder_.CreateXor(builder_.CreateAdd(beside, piece), number);
  llvm::Value* above = builder_.CreateMul(builder_.CreateUDiv(line, I32(together)), I32(together * bytes));
  llvm::Value* byte = builder_.CreateAdd(above, builder_.CreateMul(place, I32(kPieceBytes)));
  return builder_.CreateAdd(byte, I32(begin_));
}

llvm::Value* MmaOperand::Shared(llvm::Value* byte) { return builder_.CreateGEP(builder_.getInt8Ty(), shared_, byte); }

void MmaOperand::Copy(llvm::Value* turn, llvm::Value* stage) {
  const int64_t k = product_.tile->k;
  llvm::Value* left = builder_.CreateSub(I32(product_.folded), builder_.CreateMul(turn, I32(k)));
  llvm::Value* moved = builder_.CreateMul(builder_.CreateZExt(turn, builder_.getInt64Ty()),
                                          builder_.getInt64(static_cast<uint64_t>(k * side_.step_k)));
  const bool whole = product_.folded % k == 0;  // then all of a turn is there, or nothing
  llvm::Value* there = builder_.CreateICmpSGT(left, I32(0));
  for (const Piece& piece : pieces_) {
    llvm::Value* count;
    if (whole && along_k_) {
      llvm::Value* inside = piece.inside == nullptr ? there : builder_.CreateAnd(there, piece.inside);
      count = builder_.CreateSelect(inside, I32(piece_), I32(0));
    } else if (whole) {
      count = builder_.CreateSelect(there, piece.inside, I32(0));
    } else if (along_k_) {
      count = Clamp(builder_.CreateSub(left, piece.begin), piece_);
      if (piece.inside != nullptr) count = builder_.CreateSelect(piece.inside, count, I32(0));
    } else {
      count = builder_.CreateSelect(builder_.CreateICmpSLT(piece.line, left), piece.inside, I32(0));
    }
    llvm::Value* source = builder_.CreateAdd(piece.source, moved);
    llvm::Value* into = builder_.CreateAdd(piece.into, stage);
    width_* item_bytes_ >= kLeastCopy ? CopyPiece(source, into, count) : LoadPiece(source, into, count);
  }
}

// `count` elements, and zeros behind them. What has none is not looked at, but shall be a place that is there.
void MmaOperand::CopyPiece(llvm::Value* source, llvm::Value* into, llvm::Value* count) {
  const int64_t bytes = width_ * item_bytes_, apart = along_k_ ? side_.step_k : side_.step;
  const auto id = bytes == 16  ? llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s
                  : bytes == 8 ? llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                               : llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
  for (int64_t at = 0; at < piece_; at += width_) {
    llvm::Value* some = at == 0 && width_ == piece_ ? count : Clamp(builder_.CreateSub(count, I32(at)), width_);
    llvm::Value* place = builder_.CreateAdd(source, builder_.getInt64(static_cast<uint64_t>(at * apart)));
    place = builder_.CreateSelect(builder_.CreateICmpSGT(some, I32(0)), place, builder_.getInt64(0));
    llvm::Value* from = builder_.CreateGEP(Item(), pointer_, place);
    llvm::Value* to = Shared(builder_.CreateAdd(into, I32(at * item_bytes_)));
    builder_.CreateIntrinsic(id, {}, {to, from, builder_.CreateMul(some, I32(item_bytes_))});
  }
}

void MmaOperand::LoadPiece(llvm::Value* source, llvm::Value* into, llvm::Value* count) {
  llvm::Type* item = Item();
  const int64_t apart = along_k_ ? side_.step_k : side_.step;
  llvm::Value* piece = llvm::ConstantAggregateZero::get(llvm::FixedVectorType::get(item, piece_));
  for (int64_t at = 0; at < piece_; ++at) {
    llvm::Value* there = builder_.CreateICmpSGT(count, I32(at));
    llvm::Value* place = builder_.CreateAdd(source, builder_.getInt64(static_cast<uint64_t>(at * apart)));
    place = builder_.CreateSelect(there, place, builder_.getInt64(0));
    llvm::Value* from = builder_.CreateGEP(item, pointer_, place);
    llvm::Value* loaded = builder_.CreateAlignedLoad(item, from, llvm::Align(static_cast<uint64_t>(item_bytes_)));
    loaded = builder_.CreateSelect(there, loaded, llvm::ConstantInt::get(item, 0));
    piece = builder_.CreateInsertElement(piece, loaded, static_cast<uint64_t>(at));
  }
  builder_.CreateAlignedStore(piece, Shared(into), llvm::Align(kPieceBytes));
}

// ldmatrix takes four matrices of 8 by 8: lane l says where row l % 8 of matrix l / 8 lies.
void MmaOperand::PlaceFragments(llvm::Value* warp_row, int64_t blocks) {
  llvm::Value* in_matrix = builder_.CreateAnd(item_, I32(7));
  llvm::Value* odd = builder_.CreateMul(builder_.CreateAnd(builder_.CreateLShr(item_, I32(3)), I32(1)), I32(8));
  llvm::Value* upper = builder_.CreateMul(builder_.CreateAnd(builder_.CreateLShr(item_, I32(4)), I32(1)), I32(8));
  llvm::Value* row = is_b_ ? upper : odd;
  llvm::Value* k = is_b_ ? odd : upper;
  (along_k_ ? row : k) = builder_.CreateAdd(along_k_ ? row : k, in_matrix);
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t step = 0; step < product_.tile->k; step += 16) {
      llvm::Value* at_row = builder_.CreateAdd(builder_.CreateAdd(warp_row, row), I32(16 * block));
      llvm::Value* at_k = builder_.CreateAdd(k, I32(step));
      llvm::Value* line = along_k_ ? at_row : at_k;
      fragments_.push_back(ByteOf(line, builder_.CreateUDiv(along_k_ ? at_k : at_row, I32(piece_))));
    }
  }
}

std::array<llvm::Value*, 4> MmaOperand::Fragments(llvm::Value* stage, int64_t block, int64_t step) {
  const auto number = static_cast<size_t>(block * (product_.tile->k / 16) + step);
  llvm::Value* place = Shared(builder_.CreateAdd(fragments_[number], stage));
  const auto id = along_k_ ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16
                           : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16;
  llvm::Value* four = builder_.CreateIntrinsic(id, {place->getType()}, {place});
  std::array<llvm::Value*, 4> registers;
  for (unsigned i = 0; i < 4; ++i) registers[i] = builder_.CreateExtractValue(four, i);
  return registers;
}

}  // namespace kiln::compiler
