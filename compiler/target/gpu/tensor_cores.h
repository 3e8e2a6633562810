// Matrix instructions of NVIDIA's warps and AMD's wavefronts: one table.
#ifndef KILN_COMPILER_TARGET_GPU_TENSOR_CORES_H_
#define KILN_COMPILER_TARGET_GPU_TENSOR_CORES_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/ir/uop.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Whether `architecture` ("sm_90a") has an instruction for a WMMA by a wave: sizes, dtypes, items. Where each
// element of its fragments belongs is what spec/wmma_layout.h says. NVIDIA's factors of float32 are rounded to tf32, to
// nearest with ties away from zero: whether they may be is not asked here (structure/tf32.h). AMD's are not.
bool HasTensorCore(absl::string_view architecture, const WmmaArg& arg);

// A feature of LLVM's that its code asks for beyond what the architecture has by itself; or "". Products of 8-bit
// floats came with PTX 8.4, and code for sm_90a is of 8.0, which older drivers take.
absl::string_view FeatureFor(absl::string_view architecture, DType in);

// The instruction, for one that HasTensorCore: the sum's fragment. All items of the wave get here.
llvm::Value* EmitTensorCore(llvm::IRBuilder<>& builder, absl::string_view architecture, const WmmaArg& arg,
                            llvm::Value* a, llvm::Value* b, llvm::Value* c);

// The same as the instruction itself takes and gives it: the caller handles what differs from fragments. That is
// where a GPU TakesFactorsTwice: each half of the wave has all 16 elements along k of its row of A or column of B, and
// of sums, element i of item l is of row 2 i + l / 16.
bool TakesFactorsTwice(absl::string_view architecture, const WmmaArg& arg);
llvm::Value* EmitMatrixInstruction(llvm::IRBuilder<>& builder, absl::string_view architecture, const WmmaArg& arg,
                                   llvm::Value* a, llvm::Value* b, llvm::Value* c);
// How many products of `in` each sum of AMD's instruction of 16 x 16 has, of the deepest there is. There must be one.
int64_t DepthOfMatrixInstruction(absl::string_view architecture, DType in, int64_t threads);

// The same of an instruction of NVIDIA's, by its registers: those of A, of B and of the sum, in values of as many bits.
// Gives the sum's.
std::vector<llvm::Value*> EmitMma(llvm::IRBuilder<>& builder, absl::string_view architecture, const WmmaArg& arg,
                                  absl::Span<llvm::Value* const> registers);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_TENSOR_CORES_H_
