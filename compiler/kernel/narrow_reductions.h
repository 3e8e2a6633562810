// Reductions that walk only the turns that count.
//
// A convolution of a padded image multiplies weights with the zeros around the image: of 7 rows,
// a kernel of 3 rows finds two beyond the edge in 21. Which rows those are is known before the
// loop over them begins, so that the loop need not go there.
#ifndef KILN_COMPILER_KERNEL_NARROW_REDUCTIONS_H_
#define KILN_COMPILER_KERNEL_NARROW_REDUCTIONS_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `sink`, a scheduled kernel whose accesses are inside their buffers, with loops of REDUCEs
// shortened to the turns in which their value is not the fold's identity, as far as conditions
// say so that no lane has a part in; these conditions are gone. Of a sum of products, an element
// that is not there, and counts as 0, makes the product 0, even if the other factor is infinite
// or NaN.
UOp* NarrowReductions(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_NARROW_REDUCTIONS_H_
