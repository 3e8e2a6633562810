// What AMX's instructions do, as loops: for tests on machines without it (kMatrixUnitByLoops in structure/core_product.h).
// Subnormal numbers stay as they are, which AMX takes for zeros.
// Tested by tests/conformance/schedules/core_products_test.cc.
#include <functional>

#include "compiler/target/llvm/tiles/tile_code.h"

namespace kiln::compiler {
namespace {

class Loops : public TileCode {
 public:
  Loops(llvm::IRBuilder<>& builder, llvm::Function* function) : builder_(builder), function_(function) {}

  void Configure(const TileShapes& shapes) override {
    shapes_ = shapes;
    if (file_ != nullptr) return;
    llvm::BasicBlock& entry = function_->getEntryBlock();
    auto* words = llvm::ArrayType::get(builder_.getInt32Ty(), kTileRegisters * kTileRows * kTileWords);
    file_ = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(words);
  }
  void Release() override {}
  void Clear(int64_t tile) override {
    ForWords(tile, [&](llvm::Value* row, llvm::Value* word) {
      builder_.CreateStore(builder_.getInt32(0), Word(tile, row, word));
    });
  }
  void Load(int64_t tile, llvm::Value* pointer, llvm::Value* step) override {
    ForWords(tile, [&](llvm::Value* row, llvm::Value* word) {
      llvm::Value* from = InMemory(pointer, step, row, word);
      builder_.CreateStore(builder_.CreateAlignedLoad(builder_.getInt32Ty(), from, llvm::Align(1)),
                           Word(tile, row, word));
    });
  }
  void Store(int64_t tile, llvm::Value* pointer, llvm::Value* step) override {
    ForWords(tile, [&](llvm::Value* row, llvm::Value* word) {
      builder_.CreateAlignedStore(Read(tile, row, word), InMemory(pointer, step, row, word), llvm::Align(1));
    });
  }
  void Multiply(int64_t sum, int64_t a, int64_t b, DType a_dtype, DType b_dtype) override {
    ForWords(sum, [&](llvm::Value* row, llvm::Value* column) {
      For(shapes_[static_cast<size_t>(a)].words, [&](llvm::Value* k) {
        llvm::Value* added = Dot(Read(sum, row, column), Read(a, row, k), Read(b, k, column), a_dtype, b_dtype);
        builder_.CreateStore(added, Word(sum, row, column));
      });
    });
  }

 private:
  using Body = std::function<void(llvm::Value*)>;

  void For(int64_t iterations, const Body& body) {
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(builder_.getContext(), "tile", function_);
    auto* exit = llvm::BasicBlock::Create(builder_.getContext(), "tiled", function_);
    builder_.CreateBr(loop);
    builder_.SetInsertPoint(loop);
    llvm::PHINode* i = builder_.CreatePHI(builder_.getInt64Ty(), 2);
    i->addIncoming(builder_.getInt64(0), before);
    body(i);
    llvm::Value* next = builder_.CreateAdd(i, builder_.getInt64(1));
    i->addIncoming(next, builder_.GetInsertBlock());
    builder_.CreateCondBr(builder_.CreateICmpULT(next, builder_.getInt64(static_cast<uint64_t>(iterations))), loop,
                          exit);
    builder_.SetInsertPoint(exit);
  }
  void ForWords(int64_t tile, const std::function<void(llvm::Value*, llvm::Value*)>& body) {
    const TileShape& shape = shapes_[static_cast<size_t>(tile)];
    For(shape.rows, [&](llvm::Value* row) { For(shape.words, [&](llvm::Value* word) { body(row, word); }); });
  }

  llvm::Value* Word(int64_t tile, llvm::Value* row, llvm::Value* word) {
    llvm::Value* above = builder_.CreateAdd(builder_.getInt64(static_cast<uint64_t>(tile * kTileRows)), row);
    llvm::Value* at = builder_.CreateAdd(builder_.CreateMul(above, builder_.getInt64(kTileWords)), word);
    return builder_.CreateGEP(builder_.getInt32Ty(), file_, at);
  }
  llvm::Value* Read(int64_t tile, llvm::Value* row, llvm::Value* word) {
    return builder_.CreateLoad(builder_.getInt32Ty(), Word(tile, row, word));
  }
  llvm::Value* InMemory(llvm::Value* pointer, llvm::Value* step, llvm::Value* row, llvm::Value* word) {
    llvm::Value* bytes =
        builder_.CreateAdd(builder_.CreateMul(row, step), builder_.CreateMul(word, builder_.getInt64(4)));
    return builder_.CreateGEP(builder_.getInt8Ty(), pointer, bytes);
  }

  // `sum`, a word, and the products of the terms in `a` and `b`.
  llvm::Value* Dot(llvm::Value* sum, llvm::Value* a, llvm::Value* b, DType a_dtype, DType b_dtype) {
    if (a_dtype == DType::kBfloat16) {
      llvm::Value* total = builder_.CreateBitCast(sum, builder_.getFloatTy());
      for (const bool high : {false, true})
        total = builder_.CreateFAdd(total, builder_.CreateFMul(Bfloat(a, high), Bfloat(b, high)));
      return builder_.CreateBitCast(total, builder_.getInt32Ty());
    }
    for (uint64_t bits = 0; bits < 32; bits += 8)
      sum = builder_.CreateAdd(sum, builder_.CreateMul(Byte(a, bits, a_dtype), Byte(b, bits, b_dtype)));
    return sum;
  }
  llvm::Value* Bfloat(llvm::Value* word, bool high) {
    llvm::Value* bits = high ? builder_.CreateAnd(word, 0xFFFF0000) : builder_.CreateShl(word, 16);
    return builder_.CreateBitCast(bits, builder_.getFloatTy());
  }
  llvm::Value* Byte(llvm::Value* word, uint64_t bits, DType dtype) {
    llvm::Value* byte = builder_.CreateTrunc(builder_.CreateLShr(word, bits), builder_.getInt8Ty());
    return builder_.CreateIntCast(byte, builder_.getInt32Ty(), IsSigned(dtype));
  }

  llvm::IRBuilder<>& builder_;
  llvm::Function* function_;
  TileShapes shapes_;
  llvm::AllocaInst* file_ = nullptr;
};

}  // namespace

std::unique_ptr<TileCode> TileLoops(llvm::IRBuilder<>& builder, llvm::Function* function) {
  return std::make_unique<Loops>(builder, function);
}

}  // namespace kiln::compiler
