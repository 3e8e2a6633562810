// Derived and older spellings of the wire, each as core ops (docs/ir.md, "Older
// spellings").
#ifndef KILN_COMPILER_IMPORT_SPELLINGS_H_
#define KILN_COMPILER_IMPORT_SPELLINGS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// Whether `op` is none of the core IR's but is made of core ops.
bool IsSpelling(v1::Op op);

// Makes node `op` over `src` as core ops with argument `arg`. Operands that
// must agree in dtype have met already where one was weak.
absl::StatusOr<UOp*> MakeSpelled(Graph& graph, v1::Op op, v1::Dialect dialect, std::vector<UOp*> src, Arg arg);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_SPELLINGS_H_
