// Scalar expressions as text, for table tests of rules:
//
//   (add (mul r8 4) 3)           ops by their names, in lower case
//   3  -1  5:int32  1.5:float32  constants; int64 unless they say otherwise
//   true  false
//   r8  r8a  r8b                 RANGEs with 8 steps; a letter tells them apart
//   x:int32  flag:bool           scalar PARAMs
//   (cast:int8 x:int32)          the dtype of a CAST or BITCAST
#ifndef KILN_COMPILER_TESTING_EXPRESSION_TEXT_H_
#define KILN_COMPILER_TESTING_EXPRESSION_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler::testing {

// Aborts on a malformed expression: it stands in a test.
UOp* ParseExpression(Graph& graph, absl::string_view text);

// ParseExpression's inverse, with one space between operands.
std::string ExpressionText(const UOp* uop);

}  // namespace kiln::compiler::testing

#endif  // KILN_COMPILER_TESTING_EXPRESSION_TEXT_H_
