#include "compiler/target/gpu/wgmma.h"

#include "absl/strings/str_cat.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/InlineAsm.h"

namespace kiln::compiler {

using llvm::Value;

Wgmma::Wgmma(llvm::IRBuilder<>& builder, DType in, int64_t columns)
    : builder_(builder), in_(in), columns_(columns), count_(static_cast<size_t>(columns / 2)) {}

// The low half changes with the place; the rest is how lines lie: so many bytes from 8 lines to the next, and, where
// lines go along the depth, to the next 64 rows.
Value* Wgmma::Descriptor(Value* place, bool rows_beside_each_other) const {
  constexpr uint64_t kLines = 8 * kLine, kBlock = kLine / 2 * kLine, kSwizzle128 = 1;
  const uint64_t leading = rows_beside_each_other ? kBlock >> 4 : 1;
  Value* address = builder_.CreatePtrToInt(place, builder_.getInt32Ty());
  Value* low = builder_.CreateAnd(builder_.CreateLShr(address, 4), 0x3fff);
  return builder_.CreateOr(builder_.CreateZExt(low, builder_.getInt64Ty()),
                           builder_.getInt64(leading << 16 | (kLines >> 4) << 32 | kSwizzle128 << 62));
}

Wgmma::Sums Wgmma::Fence(const Sums& sums) const { return Change("wgmma.fence.sync.aligned;", "", {}, sums); }
Wgmma::Sums Wgmma::Wait(const Sums& sums) const { return Change("wgmma.wait_group.sync.aligned 0;", "", {}, sums); }

Wgmma::Sums Wgmma::Multiply(Value* a, Value* b, const Sums& sums, bool a_beside, bool b_beside) const {
  const char* type = in_ == DType::kBfloat16 ? "bf16" : "f16";
  std::string list;
  for (size_t i = 0; i < count_; ++i) absl::StrAppend(&list, i == 0 ? "" : ",", "$", i);
  const std::string text =
      absl::StrCat("{ .reg .pred adds; setp.eq.b32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n", columns_, "k",
                   kDepth, ".f32.", type, ".", type, " {", list, "}, $", count_, ", $", count_ + 1, ", adds, 1, 1, ",
                   a_beside ? 1 : 0, ", ", b_beside ? 1 : 0, "; }");
  return Change(text, "l,l,", {a, b}, sums);
}

// Outputs, then operands, then the sums once more: as what the outputs begin with.
Wgmma::Sums Wgmma::Change(const std::string& text, const std::string& inputs, std::vector<Value*> operands,
                          const Sums& sums) const {
  std::string constraints, ties;
  for (size_t i = 0; i < count_; ++i) {
    absl::StrAppend(&constraints, "=f,");
    absl::StrAppend(&ties, i == 0 ? "" : ",", i);
  }
  std::vector<llvm::Type*> types;
  operands.insert(operands.end(), sums.begin(), sums.end());
  for (const Value* operand : operands) types.push_back(operand->getType());
  auto* all = llvm::StructType::get(builder_.getContext(), std::vector<llvm::Type*>(count_, builder_.getFloatTy()));
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(all, types, false), text,
                                        absl::StrCat(constraints, inputs, ties), /*hasSideEffects=*/true);
  llvm::CallInst* call = builder_.CreateCall(assembly, operands);
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  Sums changed;
  for (unsigned i = 0; i < count_; ++i) changed.push_back(builder_.CreateExtractValue(call, i));
  return changed;
}

}  // namespace kiln::compiler
