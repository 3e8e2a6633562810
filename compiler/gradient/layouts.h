// Where cotangents lie on several devices.
//
// A cotangent has the shape of its value, and need not be split as that is: what a whole
// value gives to split ones comes back split, and is best left so until it is summed.
// Where ops would then meet that are split along two axes, it is moved.
// Tested by tests/conformance/devices/multi_gradient_test.
#ifndef KILN_COMPILER_GRADIENT_LAYOUTS_H_
#define KILN_COMPILER_GRADIENT_LAYOUTS_H_

#include "absl/status/status.h"
#include "compiler/gradient/rules.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `value`, on the devices of `model` and split as it is; both have one shape. What is on
// no device by name is on any, and is left so for a model on one.
UOp* LaidOutAs(Graph& graph, UOp* value, const UOp* model);

// The sum of two cotangents of one value.
UOp* SumOfCotangents(Graph& graph, UOp* a, UOp* b);

// The rule of `vjp.uop`'s op, whatever is split: where it cannot be applied share by
// share, to whole values.
absl::Status ApplyRuleOnDevices(Vjp& vjp);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_GRADIENT_LAYOUTS_H_
