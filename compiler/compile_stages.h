// Stages of compile.cc that other entries of the compiler share.
#ifndef KILN_COMPILER_COMPILE_STAGES_H_
#define KILN_COMPILER_COMPILE_STAGES_H_

#include "absl/status/statusor.h"
#include "compiler/pass/lowering.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// All after import, once for a lowering: `root` is what "normalise" leaves, and `lowering.function` has its bodies.
absl::StatusOr<v1::Executable> CompileNormalised(Lowering& lowering, UOp* root, const v1::Target& device);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_COMPILE_STAGES_H_
