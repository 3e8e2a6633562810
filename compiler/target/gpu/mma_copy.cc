#include "compiler/target/gpu/mma_copy.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/ir/dtype.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kPieceBytes = 16, kStepBytes = 2 * kPieceBytes, kWordBytes = 4;
constexpr int64_t kBankBytes = 128;  // all banks of shared memory

}  // namespace

MmaOperand::MmaOperand(llvm::IRBuilder<>& builder, const GroupProduct& product, const GroupProduct::Side& side,
                       const ProductSide& given, bool is_b, int64_t begin, llvm::Value* item, llvm::Value* shared,
                       uint64_t alignment)
    : builder_(builder),
      product_(product),
      side_(side),
      is_b_(is_b),
      along_k_(LiesAlongK(side)),
      item_bytes_(ItemSize(product.in)),
      piece_(kPieceBytes / item_bytes_),
      begin_(begin),
      rows_(is_b ? product.tile->n : product.tile->m),
      depth_(DepthOf(*product.tile, product.in)),
      lines_(along_k_ ? rows_ : depth_),
      length_(along_k_ ? depth_ : rows_),
      width_(alignment >= kPieceBytes ? NeighboursOf(side, piece_) : 1),
      pointer_(given.pointer),
      item_(item),
      shared_(shared),
      places_(builder, product, side, given) {
  const int64_t across = length_ / piece_, all = lines_ * across, threads = product.tile->threads;
  KILN_CHECK(all % threads == 0);
  first_ = builder_.CreateTrunc(given.first, builder_.getInt32Ty());
  const bool whole = side.size % rows_ == 0;
  for (int64_t i = 0; i < all / threads; ++i) {
    Piece piece;
    llvm::Value* place;
    if (threads % across == 0) {  // one place in all of its rows, so that what follows from it is computed once
      piece.line = builder_.CreateAdd(builder_.CreateUDiv(item, I32(across)), I32(i * (threads / across)));
      place = builder_.CreateURem(item, I32(across));
    } else {
      llvm::Value* number = builder_.CreateAdd(item, I32(i * threads));
      piece.line = builder_.CreateUDiv(number, I32(across));
      place = builder_.CreateURem(number, I32(across));
    }
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
    llvm::Value* left = builder_.CreateSub(I32(side.size), builder_.CreateAdd(first_, row));
    piece.inside = along_k_ ? (whole ? nullptr : builder_.CreateICmpSGT(left, I32(0)))
                            : (whole ? I32(piece_) : Clamp(left, piece_));
    pieces_.push_back(piece);
  }
}

llvm::Value* MmaOperand::Clamp(llvm::Value* left, int64_t max) {
  left = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, left, I32(0));
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, I32(max));
}

llvm::Value* MmaOperand::ByteOf(llvm::Value* line, llvm::Value* piece) {
  const Exchange exchange = ExchangeOf();
  const int64_t bytes = row_bytes(), together = std::max<int64_t>(1, exchange.pieces * kPieceBytes / bytes);
  llvm::Value* number = builder_.CreateMul(builder_.CreateUDiv(line, I32(exchange.lines)), I32(exchange.times));
  number = builder_.CreateURem(number, I32(exchange.pieces));
  llvm::Value* beside = builder_.CreateMul(builder_.CreateURem(line, I32(together)), I32(bytes / kPieceBytes));
  llvm::Value* place = builder_.CreateXor(builder_.CreateAdd(beside, piece), number);
  llvm::Value* above = builder_.CreateMul(builder_.CreateUDiv(line, I32(together)), I32(together * bytes));
  llvm::Value* byte = builder_.CreateAdd(above, builder_.CreateMul(place, I32(kPieceBytes)));
  return builder_.CreateAdd(byte, I32(begin_));
}

// What is read at once shall be in different banks.
MmaOperand::Exchange MmaOperand::ExchangeOf() const {
  // Rows shorter than all banks lie beside each other in them: so many are of one number.
  const int64_t bytes = row_bytes(), together = std::max<int64_t>(1, kBankBytes / bytes);
  constexpr int64_t kAll = kBankBytes / kPieceBytes;
  // An item that does ordinary arithmetic has four rows that follow each other.
  if (product_.tile->unit == MatrixTile::kFma) return {std::max<int64_t>(together, 4), 1, kAll};
  // ldmatrix reads a piece of each of eight rows.
  if (TakesMatrices()) return {together, 1, kAll};
  // Else these are eight elements of each of four rows: of every fourth, where four bytes of a column make a register.
  Exchange exchange = {together, 1, std::min(bytes, kBankBytes) / kPieceBytes};
  if (item_bytes_ == 1) exchange.lines = std::max<int64_t>(together, kWordBytes);
  if (item_bytes_ > 2 && !along_k_) exchange.times = 8 / piece_;
  return exchange;
}

llvm::Value* MmaOperand::Shared(llvm::Value* byte) { return builder_.CreateGEP(builder_.getInt8Ty(), shared_, byte); }

void MmaOperand::Copy(llvm::Value* iteration, llvm::Value* stage) {
  if (!side_.IsPlain()) return CopyJumping(iteration, stage);
  const int64_t k = depth_;
  llvm::Value* left = builder_.CreateSub(I32(product_.reduced), builder_.CreateMul(iteration, I32(k)));
  llvm::Value* moved = builder_.CreateMul(builder_.CreateZExt(iteration, builder_.getInt64Ty()),
                                          builder_.getInt64(static_cast<uint64_t>(k * side_.step_k)));
  const bool whole = product_.reduced % k == 0;  // then all of an iteration is there, or nothing
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
    CopiesPastRegisters() ? CopyPiece(source, into, count) : LoadPiece(source, into, count);
  }
}

void MmaOperand::CopyJumping(llvm::Value* iteration, llvm::Value* stage) {
  llvm::Value* base = builder_.CreateMul(iteration, I32(depth_));
  llvm::Value* end = along_k_ ? I32(product_.reduced) : I32(side_.size);
  for (const Piece& piece : pieces_) {
    llvm::Value* into = builder_.CreateAdd(piece.into, stage);
    llvm::Value* loaded = NoElements();
    for (int64_t at = 0; at < piece_; at += width_) {
      llvm::Value* begin = builder_.CreateAdd(piece.begin, I32(at));
      llvm::Value* row = along_k_ ? piece.line : begin;
      llvm::Value* k = builder_.CreateAdd(base, along_k_ ? begin : piece.line);
      const ProductPlaces::Element element = places_.At(row, k);
      if (CopiesPastRegisters()) {
        llvm::Value* left = builder_.CreateSub(end, along_k_ ? k : builder_.CreateAdd(first_, row));
        llvm::Value* some = builder_.CreateSelect(element.there, Clamp(left, width_), I32(0));
        CopySome(element.place, builder_.CreateAdd(into, I32(at * item_bytes_)), some);
      } else {
        loaded = LoadOne(loaded, at, element.place, element.there);
      }
    }
    if (!CopiesPastRegisters()) loaded_.emplace_back(loaded, into);
  }
}

// `count` elements, and zeros behind them. What has none is not looked at, but shall be a place that is there.
void MmaOperand::CopyPiece(llvm::Value* source, llvm::Value* into, llvm::Value* count) {
  const int64_t apart = along_k_ ? side_.step_k : side_.step;
  for (int64_t at = 0; at < piece_; at += width_) {
    llvm::Value* some = at == 0 && width_ == piece_ ? count : Clamp(builder_.CreateSub(count, I32(at)), width_);
    llvm::Value* place = builder_.CreateAdd(source, builder_.getInt64(static_cast<uint64_t>(at * apart)));
    place = builder_.CreateSelect(builder_.CreateICmpSGT(some, I32(0)), place, builder_.getInt64(0));
    CopySome(place, builder_.CreateAdd(into, I32(at * item_bytes_)), some);
  }
}

bool MmaOperand::CopiesPastRegisters() const { return width_ * item_bytes_ >= kWordBytes; }

void MmaOperand::CopySome(llvm::Value* place, llvm::Value* into, llvm::Value* some) {
  const int64_t bytes = width_ * item_bytes_;
  const auto id = bytes == 16  ? llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s
                  : bytes == 8 ? llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                               : llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
  llvm::Value* from = builder_.CreateGEP(ItemType(), pointer_, place);
  builder_.CreateIntrinsic(id, {}, {Shared(into), from, builder_.CreateMul(some, I32(item_bytes_))});
}

void MmaOperand::LoadPiece(llvm::Value* source, llvm::Value* into, llvm::Value* count) {
  const int64_t apart = along_k_ ? side_.step_k : side_.step;
  llvm::Value* loaded = NoElements();
  for (int64_t at = 0; at < piece_; ++at) {
    llvm::Value* there = builder_.CreateICmpSGT(count, I32(at));
    llvm::Value* place = builder_.CreateAdd(source, builder_.getInt64(static_cast<uint64_t>(at * apart)));
    loaded = LoadOne(loaded, at, builder_.CreateSelect(there, place, builder_.getInt64(0)), there);
  }
  loaded_.emplace_back(loaded, into);
}

llvm::Value* MmaOperand::NoElements() {
  return llvm::ConstantAggregateZero::get(llvm::FixedVectorType::get(ItemType(), static_cast<unsigned>(piece_)));
}

llvm::Value* MmaOperand::LoadOne(llvm::Value* piece, int64_t at, llvm::Value* place, llvm::Value* there) {
  llvm::Value* from = builder_.CreateGEP(ItemType(), pointer_, place);
  llvm::Value* loaded = builder_.CreateAlignedLoad(ItemType(), from, llvm::Align(static_cast<uint64_t>(item_bytes_)));
  loaded = builder_.CreateSelect(there, loaded, llvm::ConstantInt::get(ItemType(), 0));
  return builder_.CreateInsertElement(piece, loaded, static_cast<uint64_t>(at));
}

void MmaOperand::Finish() {
  for (const auto& [loaded, into] : loaded_)
    builder_.CreateAlignedStore(loaded, Shared(into), llvm::Align(kPieceBytes));
  loaded_.clear();
}

void MmaOperand::PlaceFragments(llvm::Value* warp_row, int64_t blocks) {
  TakesMatrices() ? PlaceMatrices(warp_row, blocks) : PlaceWords(warp_row, blocks);
}

// ldmatrix takes four matrices of eight rows of 16 bytes: lane l says where row l % 8 of matrix l / 8 lies, and gets
// word l % 4 of row l / 4 of each. That is what mma.sync wants of numbers of 32, 16 and 8 bits alike, where rows are of
// k; where they are not, it also transposes matrices of 16-bit numbers.
void MmaOperand::PlaceMatrices(llvm::Value* warp_row, int64_t blocks) {
  llvm::Value* in_matrix = builder_.CreateAnd(item_, I32(7));
  llvm::Value* odd = builder_.CreateAnd(builder_.CreateLShr(item_, I32(3)), I32(1));
  llvm::Value* upper = builder_.CreateAnd(builder_.CreateLShr(item_, I32(4)), I32(1));
  llvm::Value* row = builder_.CreateMul(is_b_ ? upper : odd, I32(8));
  llvm::Value* k = builder_.CreateMul(is_b_ ? odd : upper, I32(piece_));
  (along_k_ ? row : k) = builder_.CreateAdd(along_k_ ? row : k, in_matrix);
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t step = 0; step < depth_; step += 2 * piece_) {
      llvm::Value* at_row = builder_.CreateAdd(builder_.CreateAdd(warp_row, row), I32(16 * block));
      llvm::Value* at_k = builder_.CreateAdd(k, I32(step));
      llvm::Value* line = along_k_ ? at_row : at_k;
      fragments_.push_back(ByteOf(line, builder_.CreateUDiv(along_k_ ? at_k : at_row, I32(piece_))));
    }
  }
}

// PTX ISA, the fragments of mma.m16n8k8, m16n8k32 and m8n8k4: of lane l, each register is of row (column, of B) l / 4
// or the eighth further, and of k has what a register holds, from l % 4 times that on, or four times that further.
void MmaOperand::PlaceWords(llvm::Value* warp_row, int64_t blocks) {
  const int64_t held = std::max<int64_t>(1, kWordBytes / item_bytes_), registers = item_bytes_ == 8 ? 2 : 4;
  llvm::Value* lane = builder_.CreateAnd(item_, I32(31));
  llvm::Value* row = builder_.CreateAdd(warp_row, builder_.CreateUDiv(lane, I32(4)));
  llvm::Value* k = builder_.CreateMul(builder_.CreateAnd(lane, I32(3)), I32(held));
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t step = 0; step < depth_; step += 2 * piece_) {
      for (int64_t i = 0; i < registers; ++i) {
        const int64_t half = registers == 2 ? 0 : is_b_ ? i % 2 : i / 2;
        const int64_t rows = 16 * block + 8 * (registers == 2 || !is_b_ ? i % 2 : i / 2);
        for (int64_t e = 0; e < held; ++e) {
          const int64_t along = step + 4 * held * half + e;
          words_.push_back(along_k_ ? PlaceOf(row, rows, k, along) : PlaceOf(k, along, row, rows));
        }
      }
    }
  }
}

// `lines` below `line`, `elements` behind `element`. The exchange of pieces comes again, so that few bases are enough,
// and the rest is a number in the instruction. Lines of one number begin at multiples of as many, and so does what of a
// piece is `elements`.
MmaOperand::Place MmaOperand::PlaceOf(llvm::Value* line, int64_t lines, llvm::Value* element, int64_t elements) {
  const Exchange exchange = ExchangeOf();
  const int64_t period = exchange.lines * exchange.pieces / exchange.times, length = exchange.pieces * piece_;
  const int64_t down = lines % period / exchange.lines * exchange.lines, right = elements % length / piece_ * piece_;
  llvm::Value*& base = bases_[{down, right}];
  if (base == nullptr) {
    llvm::Value* at = builder_.CreateAdd(element, I32(right));
    base = ByteOf(builder_.CreateAdd(line, I32(down)), builder_.CreateUDiv(at, I32(piece_)));
    base = builder_.CreateAdd(base, builder_.CreateMul(builder_.CreateURem(at, I32(piece_)), I32(item_bytes_)));
  }
  return {base, ((lines - down) * length_ + elements - right) * item_bytes_};
}

std::vector<llvm::Value*> MmaOperand::Fragments(llvm::Value* stage, int64_t block, int64_t step) {
  const int64_t steps = depth_ * item_bytes_ / kStepBytes;
  const auto number = static_cast<size_t>(block * steps + step);
  std::vector<llvm::Value*> registers;
  if (!TakesMatrices()) {
    const size_t all = item_bytes_ == 8 ? 2 : 4, held = item_bytes_ == 1 ? 4 : 1;
    for (size_t i = 0; i < all; ++i) registers.push_back(LoadWord(stage, (number * all + i) * held));
    return registers;
  }
  llvm::Value* place = Shared(builder_.CreateAdd(fragments_[number], stage));
  const auto id = along_k_ ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16
                           : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16;
  llvm::Value* four = builder_.CreateIntrinsic(id, {place->getType()}, {place});
  for (unsigned i = 0; i < 4; ++i) registers.push_back(builder_.CreateExtractValue(four, i));
  return registers;
}

// A register's elements, from words_[first] on.
llvm::Value* MmaOperand::LoadWord(llvm::Value* stage, size_t first) {
  const auto load = [&](const Place& place) {
    llvm::Value* at = Shared(builder_.CreateAdd(place.base, stage));
    at = builder_.CreateGEP(builder_.getInt8Ty(), at, I32(place.further));
    return builder_.CreateAlignedLoad(ItemType(), at, llvm::Align(static_cast<uint64_t>(item_bytes_)));
  };
  if (item_bytes_ >= kWordBytes) return load(words_[first]);
  llvm::Value* bytes = llvm::PoisonValue::get(llvm::FixedVectorType::get(ItemType(), kWordBytes));
  for (size_t e = 0; e < kWordBytes; ++e) bytes = builder_.CreateInsertElement(bytes, load(words_[first + e]), e);
  return builder_.CreateBitCast(bytes, builder_.getInt32Ty());
}

}  // namespace kiln::compiler
