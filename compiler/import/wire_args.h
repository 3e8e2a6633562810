// The arguments of a wire's nodes, as the core IR has them.
#ifndef KILN_COMPILER_IMPORT_WIRE_ARGS_H_
#define KILN_COMPILER_IMPORT_WIRE_ARGS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/uop.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// Of a core op or one of its spellings; nothing for other ops and for RANGE,
// which the program importer reads. BAD_ARGUMENT for a form that is not the op's.
absl::StatusOr<Arg> ReadArg(const v1::UOp& wire);

// A BufferArg.
absl::StatusOr<Arg> ReadBuffer(const v1::BufferArg& wire);

// Sets the argument of `wire` to that of `uop`.
void WriteArg(const UOp& uop, v1::UOp& wire);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_WIRE_ARGS_H_
