// tf32: float32 with 10 bits of mantissa, which NVIDIA's matrix units multiply, and add up in float32.
//
// Products of float32 are made of it only where CompileOptions.fast_math says so. That goes with the target from pass
// to pass, as a feature that is none of LLVM's and that no device has.
#ifndef KILN_COMPILER_STRUCTURE_TF32_H_
#define KILN_COMPILER_STRUCTURE_TF32_H_

#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

bool MayRoundToTf32(const v1::Target& target);

// `target`, which then may, if it has tf32; and what it is to a device and to LLVM.
v1::Target WithTf32(v1::Target target);
v1::Target WithoutTf32(v1::Target target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_TF32_H_
