// The OptOps as a table, from opt_ops.def: their names, their arguments, and their forms in text and on the wire.
// Tested by requested_test and schedule_text_test.
#ifndef KILN_COMPILER_OPT_OPT_OPS_H_
#define KILN_COMPILER_OPT_OPT_OPS_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "compiler/opt/apply.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// What an argument is: how it is written, and whether it may be left out.
enum OptForm : uint8_t {
  kNone,       // no further argument
  kNumber,     // OptOp::amount
  kAxisType,   // OptOp::target
  kTile,       // OptOp::dimension, by its number in MatrixTiles(); in text its name
  kTop,        // OptOp::top; may be left out, as may all below
  kDimension,  // OptOp::dimension
  kClamp,      // OptOp::clamp
  kIgnored,    // taken from the wire, and not read
};

struct OptArgument {
  const char* name = "";
  OptForm form = kNone;

  bool optional() const { return form >= kTop; }
};

struct OptOpRow {
  OptOp::Kind kind;
  const char* name;
  v1::OptOp::Kind wire;
  std::array<OptArgument, 4> all;

  absl::Span<const OptArgument> arguments() const;
  // How many numbers the wire has at least.
  size_t least() const;
  // "(factor, target, top?, dimension?)"
  std::string Wanted() const;
};

inline constexpr OptOpRow kOptOps[] = {
#define OPT_OP(Name, text, wire, ...) {OptOp::k##Name, text, v1::OptOp::wire, {{__VA_ARGS__}}},
#include "compiler/opt/opt_ops.def"
#undef OPT_OP
};

const OptOpRow& RowOf(OptOp::Kind kind);

// The row of what a client sends as `kind`; null for NOLOCALS and what is no kind.
const OptOpRow* FindRow(int kind);

// "SPLIT, PADTO, … and LOCAL": the kinds that a client may send.
std::string WireNames();

constexpr bool EveryWireKindHasARow() {
  for (int kind = v1::OptOp::OPT_UNSPECIFIED + 1; kind <= v1::OptOp::Kind_MAX; ++kind) {
    bool found = kind == v1::OptOp::NOLOCALS;  // asks for nothing
    for (const OptOpRow& row : kOptOps) found |= row.wire == kind;
    if (!found) return false;
  }
  return true;
}
static_assert(EveryWireKindHasARow(), "a kind of OptOp in graph.proto has no row in opt_ops.def");

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_OPT_OPS_H_
