// The ops of the core IR and what is true of each, from ops.def.
#ifndef KILN_COMPILER_IR_OP_H_
#define KILN_COMPILER_IR_OP_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// The numbers are the wire's.
enum class Op : uint8_t {
#define UOP(name, ...) name = v1::name,
#include "compiler/ir/ops.def"
#undef UOP
};

// Parts of Op, for switches that have no case for the others.
enum class AluOp : uint8_t {  // compute element by element
#define UOP(...)
#define ALU_OP(name, ...) name = v1::name,
#include "compiler/ir/ops.def"
#undef UOP
};
enum class NonAluOp : uint8_t {
#define UOP(name, ...) name = v1::name,
#define ALU_OP(...)
#include "compiler/ir/ops.def"
#undef UOP
};
enum class MovementOp : uint8_t {
#define UOP(...)
#define MOVEMENT_OP(name, ...) name = v1::name,
#include "compiler/ir/ops.def"
#undef UOP
};
enum class KernelOp : uint8_t {  // of kernels of loops, but for AluOps
#define UOP(name, ...) name = v1::name,
#define ALU_OP(...)
#define TENSOR_OP(...)
#define PROGRAM_OP(...)
#include "compiler/ir/ops.def"
#undef UOP
};
enum class ProgramOp : uint8_t {  // the same, and of programs written by hand
#define UOP(name, ...) name = v1::name,
#define ALU_OP(...)
#define TENSOR_OP(...)
#include "compiler/ir/ops.def"
#undef UOP
};

// No value of Part if `op` is not of it: such a switch goes on behind its last case.
template <typename Part>
constexpr Part As(Op op) {
  return static_cast<Part>(op);
}

// Each op is of one class, and may have further traits.
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
  kMarker = 1 << 9,  // identity on data
  kOrdered = 0,
  kCommutative = 1 << 10,
};

// Which form of argument an op has (uop.h), or may have.
enum class ArgForm : uint8_t {
  kNoArg,
  kBuffer,
  kConst,
  kText,
  kCode,
  kWmma,
  kAxes,
  kReduce,
  kDType,
  kInteger,
  kRange,
  kConstOrNone,
  kKernelOrNone,
  kTextOrNone,
};

// How an op's dtype follows from its sources and its argument; infer_dtype.cc says what
// each rule checks.
enum class DTypeRule : uint8_t {
  kVoid,
  kUint8,
  kIndex,    // kIndexType
  kOfArg,    // the argument has it
  kOfFirst,  // the first source's
  // All operands are alike, and so is the result:
  kAlike,
  kAlikeInts,    // integers or bool
  kAlikeFloats,  // floats
  kTwoUint64,
  kStacked,   // or nothing, the shape ()
  kCompared,  // the result is bool
  // Of one op each.
  kChosen,
  kIndexed,
  kPadded,
  kReduced,
  kLoaded,
  kStored,
  kAdded,
  kProduct,
  kFunction,
  kElement,
  kCalled,
  kGate,
  kGateEnd,
};

// Where an op is legal: the stages of spec.h.
enum Stages : uint32_t {
  kInTensor = 1 << 0,
  kInProgram = 1 << 1,
  kInCalls = 1 << 2,
  kInKernel = 1 << 3,
  kInScheduled = 1 << 4,
  kInSharedOut = 1 << 5,
  kInExpanded = 1 << 6,
  kInAccumulating = 1 << 7,
  kInLinear = 1 << 8,
  kInNamed = 1 << 9,
  kInGrouped = 1 << 10,
  kInGraph = 1 << 11,  // as it is read: every op
  // A kernel of loops, from some stage on.
  kFromExpanded = kInExpanded | kInAccumulating | kInLinear,
  kFromSharedOut = kInSharedOut | kFromExpanded,
  kFromScheduled = kInScheduled | kFromSharedOut,
  kInKernels = kInKernel | kFromScheduled,
  kInLoops = kInKernels & ~kInLinear,                // while it is a graph
  kInPrograms = kInProgram | kInNamed | kInGrouped,  // written by hand
  kEverywhere = kInTensor | kInCalls | kInKernels | kInPrograms,
};

struct OpInfo {
  absl::string_view name;
  int min_sources;
  int max_sources;  // -1: any number
  uint32_t traits;
  ArgForm arg;
  DTypeRule dtype;
  uint32_t stages;
  absl::string_view meaning;
};

const OpInfo& Info(Op op);

// Whether the wire's op is one of the core IR's.
bool IsCoreOp(v1::Op op);

inline absl::string_view Name(Op op) { return Info(op).name; }
inline bool Is(Op op, uint32_t any_of_traits) { return (Info(op).traits & any_of_traits) != 0; }
inline bool IsElementwise(Op op) { return Is(op, kElementwise); }
inline bool IsComparison(Op op) { return Info(op).dtype == DTypeRule::kCompared; }

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_OP_H_
