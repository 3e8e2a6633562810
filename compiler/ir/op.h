// The ops of the core IR and their traits, from ops.def.
#ifndef KILN_COMPILER_IR_OP_H_
#define KILN_COMPILER_IR_OP_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// The numbers are the wire's.
enum class Op : uint8_t {
#define UOP(name, least, most, traits, meaning) name = v1::name,
#include "compiler/ir/ops.def"
#undef UOP
};

enum OpTraits : uint32_t {
  kSource = 1 << 0,
  kMovement = 1 << 1,
  kReduce = 1 << 2,
  kStructure = 1 << 3,
  kMemory = 1 << 4,
  kLoop = 1 << 5,
  kUnary = 1 << 6,
  kBinary = 1 << 7,
  kTernary = 1 << 8,
  kElementwise = kUnary | kBinary | kTernary,
  kCommutative = 1 << 9,
  kAssociative = 1 << 10,
  kComparison = 1 << 11,  // the result is bool
  kIntOnly = 1 << 12,     // operands are integers or bool
  kFloatOnly = 1 << 13,   // operands are floats
  kMarker = 1 << 14,      // identity on data
};

struct OpInfo {
  absl::string_view name;
  int least_sources;
  int max_sources;  // -1: any number
  uint32_t traits;
  absl::string_view meaning;
};

const OpInfo& Info(Op op);

// Whether the wire's op is one of the core IR's.
bool IsCoreOp(v1::Op op);

inline absl::string_view Name(Op op) { return Info(op).name; }
inline bool Is(Op op, uint32_t any_of_traits) { return (Info(op).traits & any_of_traits) != 0; }
inline bool IsElementwise(Op op) { return Is(op, kElementwise); }

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_OP_H_
