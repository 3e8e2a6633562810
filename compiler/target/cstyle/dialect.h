// The C-like languages, as tables.
//
// One emitter (kernel_text.h) writes all of them; whatever they differ in is a
// field here: how a kernel is declared, what a work item's coordinates are
// called, which types and functions there are. A field that is empty says that
// the language lacks the thing; programs are then rewritten without it
// (lower.h), or refused, before anything is written.
#ifndef KILN_COMPILER_TARGET_CSTYLE_DIALECT_H_
#define KILN_COMPILER_TARGET_CSTYLE_DIALECT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "compiler/ir/uop.h"
#include "compiler/rules/transcendental/native_ops.h"

namespace kiln::compiler {

struct TypeRow {
  DType dtype;
  absl::string_view name;
  // A line the text must begin with if it uses the type; empty if none.
  absl::string_view needs = "";
};

// $0, $1, ... stand for the operands.
struct FunctionRow {
  Op op;
  DType dtype;
  absl::string_view pattern;
};

// ATOMICADD of $1 to the place $0 in address space $s: a statement.
struct AtomicRow {
  DType dtype;
  absl::string_view pattern;
};

struct Dialect {
  absl::string_view name;
  // What every text begins with.
  absl::string_view header;

  // -- Declarations
  absl::string_view kernel_prefix;    // "kernel void "
  absl::string_view function_prefix;  // of the helper functions
  absl::string_view global;           // before the type of what a parameter points to
  absl::string_view local;            // before the type of storage that a work group shares; empty: it has none
  absl::string_view variable;         // a parameter that is a number: $T its type, $n its name
  absl::string_view last_params;      // behind the last parameter

  // -- Work items: the coordinates 0 to 2 of the group, of the item in it, and
  // of the item among all. Empty if the language runs one item.
  absl::Span<const absl::string_view> group_id;
  absl::Span<const absl::string_view> item_id;
  absl::Span<const absl::string_view> global_id;
  absl::string_view barrier;  // a statement

  // -- Values
  absl::Span<const TypeRow> types;
  absl::Span<const FunctionRow> functions;
  // Those of the functions that have a decomposition, and stay within docs/ir.md's
  // bounds themselves.
  absl::Span<const NativeOp> native;
  absl::Span<const AtomicRow> atomics;
  // $x's bits as a $T; $x is a variable.
  absl::string_view bitcast;
  // The greater of two ints; empty if there is no such function.
  absl::string_view int_max;
  // Vectors of 2 and 4 ints or floats, $T the scalar's type, $n their number, $v
  // their elements; empty if it has no such types.
  absl::string_view vector_type;
  absl::string_view vector_literal;
  // Whether a compiler can be told that ints wrap around; else they do so as unsigned ones.
  bool ints_wrap = false;
  // D = A * B + C by the items of a warp; empty if it has no such instruction.
  bool warp_matrix = false;

  bool HasWorkItems() const { return !group_id.empty(); }
  // Null if the language has no such type.
  const TypeRow* TypeOf(DType dtype) const;
  // Null if the language has no such function.
  const FunctionRow* FunctionOf(Op op, DType dtype) const;
  const AtomicRow* AtomicOf(DType dtype) const;
};

// c, cuda, hip, opencl, metal.
absl::Span<const Dialect* const> Dialects();
// Null if there is none of that name.
const Dialect* FindDialect(absl::string_view name);

extern const Dialect kDialectC, kDialectCuda, kDialectHip, kDialectOpenCl, kDialectMetal;

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_DIALECT_H_
