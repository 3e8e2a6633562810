#include "compiler/target/gpu/wave_product.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "compiler/ir/dtype.h"
#include "compiler/target/gpu/product_places.h"
#include "compiler/target/gpu/tensor_cores.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kBlock = 16;  // an instruction's rows and columns
constexpr int64_t kPieceBytes = 16, kStages = 2;

// Rows of a stage have as many bytes, whatever numbers they are of.
int64_t PitchBytes(const MatrixTile& tile) { return tile.k * 2 + kPieceBytes; }
int64_t StageBytes(const MatrixTile& tile) { return (tile.m + tile.n) * PitchBytes(tile); }

using Builder = llvm::IRBuilder<>;

llvm::Value* I32(Builder& b, int64_t number) { return b.getInt32(static_cast<uint32_t>(number)); }
llvm::Value* I64(Builder& b, int64_t number) { return b.getInt64(static_cast<uint64_t>(number)); }

// One operand's way from global to shared memory. Rows are rows of A, columns of B.
class Copies {
 public:
  // In a stage its rows begin at byte `begin`.
  Copies(Builder& builder, const GroupProduct& product, const GroupProduct::Side& side, const ProductSide& given,
         int64_t rows, int64_t begin, llvm::Value* item, llvm::Value* shared, uint64_t alignment)
      : b_(builder),
        product_(product),
        side_(side),
        given_(given),
        along_k_(LiesAlongK(side)),
        item_bytes_(ItemSize(product.in)),
        piece_(kPieceBytes / item_bytes_),
        depth_(DepthOf(*product.tile, product.in)),
        type_(builder.getIntNTy(static_cast<unsigned>(8 * item_bytes_))),
        shared_(shared),
        begin_(begin),
        places_(builder, product, side, given),
        width_(alignment >= kPieceBytes ? NeighboursOf(side, piece_) : 1) {
    // All that are loaded at once are there, or none is.
    while (width_ > 1 && (along_k_ ? product.reduced : side.size) % width_ != 0) width_ /= 2;
    const MatrixTile& tile = *product.tile;
    const int64_t across = (along_k_ ? depth_ : rows) / piece_, all = rows * depth_ / piece_;
    KILN_CHECK(all % tile.threads == 0);
    llvm::Value* first = b_.CreateTrunc(given.first, b_.getInt32Ty());
    for (int64_t i = 0; i < all / tile.threads; ++i) {
      llvm::Value* number = b_.CreateAdd(item, I32(b_, i * tile.threads));
      llvm::Value* line = b_.CreateUDiv(number, I32(b_, across));
      llvm::Value* place = b_.CreateMul(b_.CreateURem(number, I32(b_, across)), I32(b_, piece_));
      Piece piece;
      piece.row = along_k_ ? line : place;
      piece.k = along_k_ ? place : line;
      piece.left = b_.CreateSub(I32(b_, side.size), b_.CreateAdd(first, piece.row));
      pieces_.push_back(piece);
    }
  }

  // The pieces that iteration `iteration` multiplies; zeros where there are no elements.
  std::vector<llvm::Value*> Load(llvm::Value* iteration) {
    std::vector<llvm::Value*> loaded;
    llvm::Value* base = b_.CreateMul(iteration, I32(b_, depth_));
    llvm::Type* type = Vector(width_);
    for (const Piece& piece : pieces_) {
      llvm::Value* whole = llvm::Constant::getNullValue(Vector(piece_));
      for (int64_t at = 0; at < piece_; at += width_) {
        const auto [place, there] = side_.IsPlain() ? At(piece, base, at) : Jumping(piece, base, at);
        llvm::Value* some = b_.CreateAlignedLoad(type, b_.CreateGEP(type_, given_.pointer, place),
                                                 llvm::Align(static_cast<uint64_t>(width_ * item_bytes_)));
        some = b_.CreateSelect(there, some, llvm::Constant::getNullValue(type));
        for (int64_t e = 0; e < width_; ++e)
          whole = b_.CreateInsertElement(whole, b_.CreateExtractElement(some, static_cast<uint64_t>(e)),
                                         static_cast<uint64_t>(at + e));
      }
      loaded.push_back(whole);
    }
    return loaded;
  }

  // To the stage at byte `stage`.
  void Store(const std::vector<llvm::Value*>& loaded, llvm::Value* stage) {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      llvm::Value* place = ByteOf(stage, pieces_[i].row, pieces_[i].k);
      if (along_k_) {
        b_.CreateAlignedStore(loaded[i], Shared(place), llvm::Align(kPieceBytes));
        continue;
      }
      for (int64_t e = 0; e < piece_; ++e) {
        llvm::Value* element = b_.CreateExtractElement(loaded[i], static_cast<uint64_t>(e));
        b_.CreateAlignedStore(element, Shared(b_.CreateAdd(place, I32(b_, e * PitchBytes(*product_.tile)))),
                              llvm::Align(static_cast<uint64_t>(item_bytes_)));
      }
    }
  }

  // `count` neighbours along k, from `k` on, of row `row`.
  llvm::Value* Neighbours(llvm::Value* stage, llvm::Value* row, llvm::Value* k, int64_t count) {
    const int64_t aligned = std::min(count * item_bytes_, kPieceBytes);
    return b_.CreateAlignedLoad(Vector(count), Shared(ByteOf(stage, row, k)),
                                llvm::Align(static_cast<uint64_t>(aligned)));
  }

 private:
  // 16 bytes of neighbours that this item copies: where they begin in the tile, and how many rows there are from there
  // on.
  struct Piece {
    llvm::Value *row, *k, *left;
  };

  // Of element `at` of a piece, in the iteration whose k begin at `base`.
  ProductPlaces::Element At(const Piece& piece, llvm::Value* base, int64_t at) {
    llvm::Value* k = b_.CreateAdd(base, piece.k);
    llvm::Value* offset =
        b_.CreateAdd(given_.offset, b_.CreateAdd(Times(piece.row, side_.step), Times(k, side_.step_k)));
    llvm::Value* left_k = b_.CreateSub(I32(b_, product_.reduced), k);
    const int64_t apart = along_k_ ? side_.step_k : side_.step;
    llvm::Value* rows_left = along_k_ ? piece.left : b_.CreateSub(piece.left, I32(b_, at));
    llvm::Value* k_left = along_k_ ? b_.CreateSub(left_k, I32(b_, at)) : left_k;
    llvm::Value* there = b_.CreateAnd(b_.CreateICmpSGT(rows_left, I32(b_, 0)), b_.CreateICmpSGT(k_left, I32(b_, 0)));
    return {b_.CreateSelect(there, b_.CreateAdd(offset, I64(b_, at * apart)), I64(b_, 0)), there};
  }
  ProductPlaces::Element Jumping(const Piece& piece, llvm::Value* base, int64_t at) {
    llvm::Value* k = b_.CreateAdd(base, piece.k);
    return along_k_ ? places_.At(piece.row, b_.CreateAdd(k, I32(b_, at)))
                    : places_.At(b_.CreateAdd(piece.row, I32(b_, at)), k);
  }

  llvm::Value* Times(llvm::Value* number, int64_t step) {
    return b_.CreateMul(b_.CreateSExt(number, b_.getInt64Ty()), I64(b_, step));
  }
  llvm::Type* Vector(int64_t count) { return llvm::FixedVectorType::get(type_, static_cast<unsigned>(count)); }
  llvm::Value* ByteOf(llvm::Value* stage, llvm::Value* row, llvm::Value* k) {
    llvm::Value* place = b_.CreateMul(row, I32(b_, PitchBytes(*product_.tile)));
    place = b_.CreateAdd(place, b_.CreateMul(k, I32(b_, item_bytes_)));
    return b_.CreateAdd(place, b_.CreateAdd(stage, I32(b_, begin_)));
  }
  llvm::Value* Shared(llvm::Value* byte) {
    return b_.CreateGEP(b_.getInt8Ty(), shared_, b_.CreateZExt(byte, b_.getInt64Ty()));
  }

  Builder& b_;
  const GroupProduct& product_;
  const GroupProduct::Side& side_;
  const ProductSide given_;
  const bool along_k_;                        // whether neighbours in memory are along k
  const int64_t item_bytes_, piece_, depth_;  // of an element; elements of 16 bytes, and of an iteration along k
  llvm::Type* const type_;                    // an element's bits
  llvm::Value* const shared_;
  const int64_t begin_;
  ProductPlaces places_;
  int64_t width_;  // elements that are loaded at once
  std::vector<Piece> pieces_;
};

class WaveProduct {
 public:
  WaveProduct(Builder& builder, const KernelAbi& abi, absl::string_view architecture, const GroupProduct& product,
              const ProductSide& a, const ProductSide& b, llvm::Value* item, llvm::Value* shared, uint64_t alignment)
      : b_(builder),
        abi_(abi),
        architecture_(architecture),
        product_(product),
        tile_(*product.tile),
        wave_(tile_.unit == MatrixTile::kMfma ? 64 : 32),
        down_(tile_.lanes[0].size),
        across_(tile_.lanes[1].size),
        sums_of_one_(tile_.lanes[2].size),
        arg_{kBlock, kBlock, DepthOfMatrixInstruction(architecture, product.in, wave_), product.in, SumOf(product.in),
             wave_},
        a_(builder, product, product.a, a, tile_.m, 0, item, shared, alignment),
        b_side_(builder, product, product.b, b, tile_.n, tile_.m * PitchBytes(tile_), item, shared, alignment) {
    int64_t below = 1;
    std::array<llvm::Value*, 2> corner = {I32(b_, 0), I32(b_, 0)};
    for (const TileDigit& digit : tile_.items) {
      llvm::Value* value = b_.CreateURem(b_.CreateUDiv(item, I32(b_, below)), I32(b_, digit.size));
      if (below >= wave_)
        corner[digit.column] = b_.CreateAdd(corner[digit.column], b_.CreateMul(value, I32(b_, digit.step)));
      below *= digit.size;
    }
    llvm::Value* lane = b_.CreateAnd(item, I32(b_, wave_ - 1));
    llvm::Value* line = b_.CreateAnd(lane, I32(b_, kBlock - 1));
    row_ = b_.CreateAdd(corner[0], line);
    // Where each item has all of k, so has its neighbour half a wave further, and of sums every other row each. Of
    // float64 an item's sums are of every fourth row. Rows are read in such an order that neighbours come of it.
    const bool twice = TakesFactorsTwice(architecture_, arg_);
    const int apart = twice ? 1 : product_.in == DType::kFloat64 ? 2 : 0;
    llvm::Value* above = b_.CreateShl(b_.CreateAnd(line, (1 << apart) - 1), 4 - apart);
    column_ = b_.CreateAdd(corner[1], b_.CreateOr(b_.CreateLShr(line, apart), above));
    const int64_t shares = twice ? 1 : wave_ / kBlock;
    held_ = arg_.k / shares;
    read_ = DepthOf(tile_, product_.in) / shares;
    k_ = twice ? I32(b_, 0) : b_.CreateMul(b_.CreateLShr(lane, 4), I32(b_, read_));
  }

  std::vector<llvm::Value*> Run() {
    const int64_t depth = DepthOf(tile_, product_.in), iterations = (product_.reduced + depth - 1) / depth;
    Store(Load(I32(b_, 0)), I32(b_, 0));
    abi_.Barrier(b_);
    llvm::BasicBlock* before = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b_.getContext(), "iteration", before->getParent());
    auto* done = llvm::BasicBlock::Create(b_.getContext(), "multiplied", before->getParent());
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* iteration = b_.CreatePHI(b_.getInt32Ty(), 2, "iteration");
    llvm::PHINode* now = b_.CreatePHI(b_.getInt32Ty(), 2, "now");  // the stage that is multiplied
    auto* type = llvm::FixedVectorType::get(RegisterType(b_.getContext(), SumOf(product_.in)),
                                            static_cast<unsigned>(sums_of_one_));
    std::vector<llvm::PHINode*> sums;
    for (int64_t i = 0; i < down_ * across_; ++i) {
      sums.push_back(b_.CreatePHI(type, 2));
      sums.back()->addIncoming(llvm::Constant::getNullValue(type), before);
    }
    sums_.assign(sums.begin(), sums.end());
    llvm::Value* another = b_.CreateAdd(iteration, I32(b_, 1));
    const auto loaded = Load(another);
    Multiply(now);
    llvm::Value* next = b_.CreateSub(I32(b_, StageBytes(tile_)), now);
    Store(loaded, next);
    abi_.Barrier(b_);
    iteration->addIncoming(I32(b_, 0), before);
    iteration->addIncoming(another, loop);
    now->addIncoming(I32(b_, 0), before);
    now->addIncoming(next, loop);
    for (size_t i = 0; i < sums.size(); ++i) sums[i]->addIncoming(sums_[i], loop);
    KeepRolled(b_.CreateCondBr(b_.CreateICmpSLT(another, I32(b_, iterations)), loop, done));
    b_.SetInsertPoint(done);
    std::vector<llvm::Value*> elements;
    for (llvm::Value* sum : sums_) {
      for (int64_t e = 0; e < sums_of_one_; ++e)
        elements.push_back(b_.CreateExtractElement(sum, static_cast<uint64_t>(e)));
    }
    return elements;
  }

 private:
  using Loaded = std::array<std::vector<llvm::Value*>, 2>;
  Loaded Load(llvm::Value* iteration) { return {a_.Load(iteration), b_side_.Load(iteration)}; }
  void Store(const Loaded& loaded, llvm::Value* stage) {
    a_.Store(loaded[0], stage);
    b_side_.Store(loaded[1], stage);
  }

  // An item reads its share of the iteration's k at once; each instruction takes the next of it. So what an instruction
  // multiplies is not of neighbours along k, but the same of both factors.
  void Multiply(llvm::Value* stage) {
    std::vector<llvm::Value*> a, b;
    for (int64_t i = 0; i < down_; ++i)
      a.push_back(a_.Neighbours(stage, b_.CreateAdd(row_, I32(b_, kBlock * i)), k_, read_));
    for (int64_t j = 0; j < across_; ++j)
      b.push_back(b_side_.Neighbours(stage, b_.CreateAdd(column_, I32(b_, kBlock * j)), k_, read_));
    for (int64_t from = 0; from < read_; from += held_) {
      for (size_t i = 0; i < a.size(); ++i) {
        for (size_t j = 0; j < b.size(); ++j) {
          llvm::Value*& sum = sums_[i * b.size() + j];
          sum = EmitMatrixInstruction(b_, architecture_, arg_, Fragment(b[j], from), Fragment(a[i], from), sum);
        }
      }
    }
  }
  llvm::Value* Fragment(llvm::Value* read, int64_t from) {
    std::vector<int> elements;
    for (int64_t e = 0; e < held_; ++e) elements.push_back(static_cast<int>(from + e));
    return held_ == read_ ? read : b_.CreateShuffleVector(read, elements);
  }

  void KeepRolled(llvm::BranchInst* again) {
    llvm::LLVMContext& context = b_.getContext();
    llvm::MDNode* disable = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
    llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, disable});
    id->replaceOperandWith(0, id);
    again->setMetadata(llvm::LLVMContext::MD_loop, id);
  }

  Builder& b_;
  const KernelAbi& abi_;
  const absl::string_view architecture_;
  const GroupProduct& product_;
  const MatrixTile& tile_;
  const int64_t wave_, down_, across_, sums_of_one_;
  const WmmaArg arg_;  // the instruction
  Copies a_, b_side_;
  int64_t held_ = 0,
          read_ = 0;  // elements along k that an item has of a factor: for an instruction, and in an iteration
  llvm::Value *row_ = nullptr, *column_ = nullptr, *k_ = nullptr;  // where its fragments begin
  std::vector<llvm::Value*> sums_;
};

}  // namespace

int64_t WaveSharedBytes(const MatrixTile& tile) { return kStages * StageBytes(tile); }

std::vector<llvm::Value*> EmitWaveProduct(llvm::IRBuilder<>& builder, const KernelAbi& abi,
                                          absl::string_view architecture, const GroupProduct& product,
                                          const ProductSide& a, const ProductSide& b, llvm::Value* item,
                                          llvm::Value* shared, uint64_t alignment) {
  return WaveProduct(builder, abi, architecture, product, a, b, item, shared, alignment).Run();
}

}  // namespace kiln::compiler
