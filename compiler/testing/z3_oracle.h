// Z3 as the judge of integer arithmetic: whether two expressions are equal for
// every value of their variables, as docs/ir.md defines the ops, wrapping included.
#ifndef KILN_COMPILER_TESTING_Z3_ORACLE_H_
#define KILN_COMPILER_TESTING_Z3_ORACLE_H_

#include <string>

#include "compiler/ir/graph.h"

namespace kiln::compiler::testing {

struct Verdict {
  enum Kind {
    kProved,
    kRefuted,    // `why` has values for which it fails
    kUndecided,  // no answer in time
    kNotAsked,   // floats, memory, bits of numbers, products of variables
  };
  Kind kind = kNotAsked;
  std::string why;
};

// `a == b`, for all values of the RANGEs and PARAMs in them.
Verdict ProveEqual(UOp* a, UOp* b);
// `conclusion` wherever `premise` holds; both are bool, the premise may be null.
Verdict ProveImplied(UOp* premise, UOp* conclusion);
// That the int64 or bool node `x` is within its bounds.
Verdict ProveBounded(UOp* x);

}  // namespace kiln::compiler::testing

#endif  // KILN_COMPILER_TESTING_Z3_ORACLE_H_
