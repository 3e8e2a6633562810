// Gives every value of a hand-written program one place where it is made.
//
// A program lists the same node as often as it runs it, and a later use sees the
// newest value. So one node is many values, and nothing can be said about it. This
// pass tells them apart. Beyond it a LINEAR lists effects and reads alone:
//   RANGE  END(GROUP [], range)  IF  ENDIF  BARRIER  STORE  ATOMICADD  CUSTOM
//   AFTER(LOAD(...), n): the n-th read; users have the AFTER as their source
// Every loop has a RANGE of its own. Arithmetic is not listed: it may happen
// wherever its sources are known. Pointers are INDEX(storage, i...) with an int64
// index for every axis; WMMA is loops over memory, or where the target has it
//   AFTER(WMMA(...), n)
#ifndef KILN_COMPILER_PROGRAM_PROGRAM_VALUES_H_
#define KILN_COMPILER_PROGRAM_PROGRAM_VALUES_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/program/wmma.h"

namespace kiln::compiler {

// A value has at most this many lanes.
inline constexpr int64_t kMaxLanes = 1024;

// `linear` satisfies VerifyProgram (spec/program_spec.h).
absl::StatusOr<UOp*> NameValues(Graph& graph, UOp* linear, const HasWmma& has_wmma);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_PROGRAM_VALUES_H_
