// PTX into machine code, by NVIDIA's assembler, where there is one.
#ifndef KILN_COMPILER_TARGET_GPU_ASSEMBLE_PTX_H_
#define KILN_COMPILER_TARGET_GPU_ASSEMBLE_PTX_H_

#include <string>

#include "absl/status/status.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::compiler {

// Makes a cubin of the executable's PTX, so that no driver has to whenever the program is loaded. Leaves any other
// code as it is, and PTX for an architecture whose later cards take it too: a cubin is for one alone.
// `ptxas`: the assembler's path, which is run as a process; empty: nothing is done. INTERNAL_FAULT with what it said.
absl::Status AssemblePtx(const std::string& ptxas, v1::Executable& executable);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_ASSEMBLE_PTX_H_
