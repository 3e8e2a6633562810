// What a condition says about the indices that it compares: knowledge that holds
// wherever the condition does, for proving accesses and for simplifying what
// a gate guards (given.cc).
#ifndef KILN_COMPILER_RULES_FACTS_H_
#define KILN_COMPILER_RULES_FACTS_H_

#include <vector>

#include "compiler/rules/linear.h"

namespace kiln::compiler {

// A sum that does not wrap, without its constant, is in [min, max].
struct Fact {
  LinearForm sum;
  __int128 min;
  __int128 max;
};

// The distinct operands of a tree of ANDs, `condition` itself if it is none. A
// condition that doubles itself often has more parts than anyone could list:
// `complete` is false where there are more than are listed.
struct Conjuncts {
  std::vector<UOp*> parts;
  bool complete = true;
};
Conjuncts ConjunctsOf(UOp* condition);

// What follows from `condition` being true, or false. An interval may come out
// empty: then it never is.
std::vector<Fact> FactsFrom(const UOp* condition, bool holds = true);

// The interval of the int64 node `index` under the facts. Sound wherever they hold.
Bounds NarrowedBounds(UOp* index, std::vector<Fact> facts);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_FACTS_H_
