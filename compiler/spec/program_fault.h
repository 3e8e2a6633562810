// What is wrong with one instruction of a program, whatever stands around it.
#ifndef KILN_COMPILER_SPEC_PROGRAM_FAULT_H_
#define KILN_COMPILER_SPEC_PROGRAM_FAULT_H_

#include <string>

#include "compiler/ir/uop.h"
#include "compiler/options/options.h"
#include "kiln/v1/error.pb.h"

namespace kiln::compiler {

struct ProgramFault {
  v1::ErrorCode code = v1::ERROR_CODE_UNSPECIFIED;  // none: no fault
  std::string text;                                 // what was found, and what is legal
};

ProgramFault FaultOf(const UOp* uop, const Limits& limits);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SPEC_PROGRAM_FAULT_H_
