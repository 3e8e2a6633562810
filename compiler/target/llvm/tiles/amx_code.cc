// AMX's instructions (Intel SDM, volume 2): each register by its number. LLVM gives none of them out, so that they keep
// what they hold between any two of them.
// Tested by tests/conformance/schedules/core_products_test.cc.
#include "compiler/target/llvm/tiles/tile_code.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"

namespace kiln::compiler {
namespace {

// LDTILECFG's 64 bytes: the palette, a row to begin at, bytes of a row of each tile from 16 on, rows from 48 on.
constexpr size_t kConfigBytes = 64, kBytesOfRow = 16, kRows = 48;
constexpr uint8_t kPalette = 1;

class Amx : public TileCode {
 public:
  Amx(llvm::IRBuilder<>& builder, llvm::Function* function) : builder_(builder), function_(function) {}

  void Configure(const TileShapes& shapes) override {
    std::array<uint8_t, kConfigBytes> bytes = {kPalette};
    for (size_t tile = 0; tile < shapes.size(); ++tile) {
      bytes[kBytesOfRow + 2 * tile] = static_cast<uint8_t>(4 * shapes[tile].words);
      bytes[kRows + tile] = static_cast<uint8_t>(shapes[tile].rows);
    }
    llvm::Constant* all = llvm::ConstantDataArray::get(builder_.getContext(), bytes);
    auto* config = new llvm::GlobalVariable(*function_->getParent(), all->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::PrivateLinkage, all, "tiles");
    config->setAlignment(llvm::Align(64));
    Call(llvm::Intrinsic::x86_ldtilecfg, {config});
  }
  void Release() override { Call(llvm::Intrinsic::x86_tilerelease, {}); }
  void Clear(int64_t tile) override { Call(llvm::Intrinsic::x86_tilezero, {Number(tile)}); }
  void Load(int64_t tile, llvm::Value* pointer, llvm::Value* step) override {
    Call(llvm::Intrinsic::x86_tileloadd64, {Number(tile), pointer, step});
  }
  void Store(int64_t tile, llvm::Value* pointer, llvm::Value* step) override {
    Call(llvm::Intrinsic::x86_tilestored64, {Number(tile), pointer, step});
  }
  void Multiply(int64_t sum, int64_t a, int64_t b, DType a_dtype, DType b_dtype) override {
    Call(InstructionOf(a_dtype, b_dtype), {Number(sum), Number(a), Number(b)});
  }

 private:
  static llvm::Intrinsic::ID InstructionOf(DType a, DType b) {
    if (a == DType::kBfloat16) return llvm::Intrinsic::x86_tdpbf16ps;
    if (a == DType::kInt8) return b == DType::kInt8 ? llvm::Intrinsic::x86_tdpbssd : llvm::Intrinsic::x86_tdpbsud;
    return b == DType::kInt8 ? llvm::Intrinsic::x86_tdpbusd : llvm::Intrinsic::x86_tdpbuud;
  }

  llvm::Value* Number(int64_t tile) { return builder_.getInt8(static_cast<uint8_t>(tile)); }
  void Call(llvm::Intrinsic::ID instruction, llvm::ArrayRef<llvm::Value*> operands) {
    builder_.CreateIntrinsic(builder_.getVoidTy(), instruction, operands);
  }

  llvm::IRBuilder<>& builder_;
  llvm::Function* function_;
};

}  // namespace

std::unique_ptr<TileCode> AmxCode(llvm::IRBuilder<>& builder, llvm::Function* function) {
  return std::make_unique<Amx>(builder, function);
}

}  // namespace kiln::compiler
