// Gradient: from a program to the program of its vector-Jacobian product.
//
// Reverse mode: the values of one result are walked from the last to the first;
// each hands the derivative that has arrived at it (its cotangent) on to its
// operands by the chain rule, one rule an op (rules.h). What arrives at a
// parameter is its gradient. The forward values that the rules need stand in the
// new program as they are, so it is again a program like any other: it can be
// compiled, and its gradient taken.
//
// Derivatives where there is none, or more than one:
//   - through integers and bool: zero (CAST to them, comparisons, TRUNC);
//   - MAX of equal operands, and REDUCE MAX of equal elements: even shares;
//   - outside of its range, an INDEX gives nothing back;
//   - DETACH stops, CONTIGUOUS_BACKWARD stores the cotangent whole;
//   - equal rows on several devices, of which REPLICATED takes one: even shares;
//   - the bits of a float (BITCAST) have no derivative: an error, unless a DETACH
//     stands between them and the result.
#ifndef KILN_COMPILER_GRADIENT_GRADIENT_H_
#define KILN_COMPILER_GRADIENT_GRADIENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/options.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::compiler {

struct GradientSpec {
  uint32_t result = 0;              // which of the program's results is differentiated
  std::vector<uint32_t> wrt_slots;  // with respect to these: floats, one gradient each
  // The PARAM that brings the result's cotangent: a slot that the program does not
  // use, of the result's dtype and shape. If the result is split over devices along its first
  // axis, so is this; if it is on several devices otherwise, this is on the first of them.
  // Without it the result has one element, and its cotangent is 1.
  std::optional<uint32_t> cotangent_slot;
  bool include_results = false;  // the program's own results come first
};

// The program TUPLE(results...?, gradients...) for the program under `root`, a TUPLE
// or SINK as FromWire gives it. A slot that the result does not depend on has a
// gradient of zeros; each lies as its slot's parameter does. BAD_ARGUMENT for a result that is not there, a cotangent
// slot that is in use, a STORE, a BITCAST of a float; UNKNOWN_ARGUMENT for a slot that is not there; DTYPE_MISMATCH for
// what is no float; UNSUPPORTED_OP, naming the node, for what is no tensor program.
absl::StatusOr<UOp*> GradientProgram(Graph& graph, UOp* root, const GradientSpec& spec);

// The same from wire to wire, also with FromWire's errors. GRAPH_TOO_LARGE if the
// answer is no graph that a server with these limits takes. Any thread.
absl::StatusOr<v1::GradientResponse> Gradient(const v1::GradientRequest& request, const Limits& limits);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_GRADIENT_GRADIENT_H_
