// A UOp: one node of a graph, with the properties derived from it.
//
// UOps are immutable and interned in a Graph (graph.h): two nodes of one graph
// with equal op, sources and argument are the same pointer.
#ifndef KILN_COMPILER_IR_UOP_H_
#define KILN_COMPILER_IR_UOP_H_

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "compiler/ir/dtype.h"
#include "compiler/ir/op.h"

namespace kiln::compiler {

class UOp;

// One size of a shape: a number, or an expression of variables (polynomial.h) that
// is known when the program is called. Numbers turn into Dims and back without a
// word; where a size may be symbolic, code asks IsConst() first.
class Dim {
 public:
  Dim() = default;
  Dim(int64_t size) : least_(size), greatest_(size) {}  // NOLINT: implicit on purpose
  // `expr` is an int64 node that FromPolynomial made, and no constant.
  Dim(UOp* expr, int64_t least, int64_t greatest) : expr_(expr), least_(least), greatest_(greatest) {}

  bool IsConst() const { return expr_ == nullptr; }
  UOp* expr() const { return expr_; }  // null for a number
  int64_t min() const { return least_; }
  int64_t max() const { return greatest_; }
  // The number; to ask it of a symbolic size is a fault of ours.
  operator int64_t() const {  // NOLINT: implicit on purpose
    KILN_CHECK(IsConst());
    return greatest_;
  }

  // The same number, or the same expression.
  friend bool operator==(const Dim& a, const Dim& b) {
    return a.expr_ == b.expr_ && (a.expr_ != nullptr || a.greatest_ == b.greatest_);
  }
  friend bool operator==(const Dim& a, std::integral auto b) { return a.IsConst() && a.greatest_ == int64_t{b}; }
  template <typename H>
  friend H AbslHashValue(H h, const Dim& dim) {
    return H::combine(std::move(h), dim.expr_, dim.expr_ == nullptr ? dim.greatest_ : 0);
  }

 private:
  UOp* expr_ = nullptr;
  int64_t least_ = 0;
  int64_t greatest_ = 0;
};

using Shape = absl::InlinedVector<Dim, 6>;

bool IsConst(const Shape& shape);
// Number of elements; 1 for (). The IR holds no shape whose product overflows.
int64_t NumElements(const Shape& shape);
// The same where every variable has its greatest value.
int64_t MaxElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "(2, 3)", "(n*3, 4)"
std::string ToString(const UOp* size);     // a symbolic size's expression

enum class AddrSpace : uint8_t {
  kNone = v1::ADDRSPACE_UNSPECIFIED,
  kGlobal = v1::GLOBAL,
  kLocal = v1::LOCAL,
  kReg = v1::REG,
  kAlu = v1::ALU,
};

enum class AxisType : uint8_t {
  kNone = v1::AXIS_TYPE_UNSPECIFIED,
  kGlobal = v1::AXIS_GLOBAL,
  kWarp = v1::AXIS_WARP,
  kLocal = v1::AXIS_LOCAL,
  kLoop = v1::AXIS_LOOP,
  kGroupReduce = v1::AXIS_GROUP_REDUCE,
  kReduce = v1::AXIS_REDUCE,
  kUpcast = v1::AXIS_UPCAST,
  kUnroll = v1::AXIS_UNROLL,
  kThread = v1::AXIS_THREAD,
  kDevice = v1::AXIS_DEVICE,
  kOuter = v1::AXIS_OUTER,
};

// -- Arguments. Each has ==, and a hash by AbslHashValue.

// A scalar: the bits of its value in its dtype. Signed integers are
// sign-extended to 64 bits, all else zero-extended; weak integers are int64,
// weak floats float64.
struct ConstArg {
  DType dtype = DType::kNone;
  uint64_t bits = 0;
  bool invalid = false;
  bool operator==(const ConstArg&) const = default;
};

struct BufferArg {
  uint32_t slot = 0;
  DType dtype = DType::kNone;
  AddrSpace addrspace = AddrSpace::kGlobal;
  std::string device;
  std::string name;
  // Of a variable (addrspace ALU).
  int64_t min = 0;
  int64_t max = 0;
  // Of a kernel's PARAM: what it holds stays the same over many runs.
  bool constant = false;
  bool operator==(const BufferArg&) const = default;
};

struct AxesArg {
  std::vector<int64_t> axes;  // PERMUTE: the order. FLIP: 0 or 1 an axis.
  bool operator==(const AxesArg&) const = default;
};

struct ReduceArg {
  Op op = Op::ADD;
  std::vector<int64_t> axes;
  bool operator==(const ReduceArg&) const = default;
};

struct RangeArg {
  int64_t id = 0;
  AxisType type = AxisType::kLoop;
  bool operator==(const RangeArg&) const = default;
};

struct TextArg {
  std::string text;  // BINARY: the bytes. SPECIAL: gidx0, ... CALL: its name.
  bool operator==(const TextArg&) const = default;
};

// An OptOp that a client asks for, as it was sent (graph.proto says what `arg`
// holds); opt/requested.h reads it.
struct OptArg {
  int kind = 0;  // v1::OptOp::Kind
  int64_t axis = 0;
  std::vector<int64_t> arg;
  bool operator==(const OptArg&) const = default;
};

// What a kernel is beside its body: of its SINK or LINEAR.
struct KernelArg {
  std::string name;
  std::vector<OptArg> opts;  // none: the compiler chooses
  bool dont_use_locals = false;
  // Of a LINEAR: a client's own text that stands for all its instructions, which then
  // say what it takes and writes. Only where the server's owner allows it.
  std::string source;
  bool operator==(const KernelArg&) const = default;
};

// D (M x N) = A (M x K) * B (K x N) + C, held by `threads` items together.
struct WmmaArg {
  int64_t n = 0, m = 0, k = 0;
  DType in = DType::kNone;
  DType out = DType::kNone;
  int64_t threads = 1;
  bool operator==(const WmmaArg&) const = default;
};

// A client's own code in the target's language, {n} standing for the n-th source
// (code_text.h), and what it is worth: void for a statement.
struct CodeArg {
  DType dtype = DType::kVoid;
  std::string text;
  bool operator==(const CodeArg&) const = default;
};

// The alternative says which op it is for: ConstArg for CONST, and for PAD its
// fill; DType for CAST and BITCAST; int64_t for GETTUPLE.
using Arg = std::variant<std::monostate, ConstArg, BufferArg, AxesArg, ReduceArg, RangeArg, TextArg, KernelArg, WmmaArg,
                         CodeArg, DType, int64_t>;

// An interval that holds every value of an integer node: its min_max. Wide
// enough for uint64. Floats have no bounds (known() is false).
struct Bounds {
  __int128 min = std::numeric_limits<int64_t>::min();
  __int128 max = std::numeric_limits<uint64_t>::max();
  bool known = false;
  bool IsConst() const { return known && min == max; }
};

class UOp {
 public:
  Op op() const { return op_; }
  absl::Span<UOp* const> src() const { return src_; }
  UOp* src(size_t i) const { return src_[i]; }
  const Arg& arg() const { return arg_; }

  // The argument, of the form that the op has; anything else is a fault of ours.
  template <typename T>
  const T& arg_as() const {
    return std::get<T>(arg_);
  }

  // -- Derived properties
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  AddrSpace addrspace() const { return addrspace_; }
  const std::string& device() const { return device_ == nullptr ? kNoDevice : *device_; }
  // Which axis is split over a tuple device; -1 for none.
  int axis() const { return axis_; }
  const Bounds& bounds() const { return bounds_; }

  // Position in the order of creation: a source's is below its user's.
  uint32_t id() const { return id_; }

  bool IsConst() const { return op_ == Op::CONST && !std::get<ConstArg>(arg_).invalid; }
  bool IsInvalid() const { return op_ == Op::CONST && std::get<ConstArg>(arg_).invalid; }
  // A scalar that is given with each call: sizes may depend on it.
  bool IsVariable() const { return op_ == Op::PARAM && addrspace_ == AddrSpace::kAlu; }
  // The value of an integer or bool CONST.
  int64_t const_int() const { return static_cast<int64_t>(std::get<ConstArg>(arg_).bits); }
  bool IsConstInt(int64_t value) const { return IsConst() && IsIntOrBool(dtype_) && const_int() == value; }

 private:
  friend class Graph;
  friend class Inference;

  static const std::string kNoDevice;

  Op op_ = Op::CONST;
  DType dtype_ = DType::kVoid;
  AddrSpace addrspace_ = AddrSpace::kNone;
  int16_t axis_ = -1;
  uint32_t id_ = 0;
  absl::Span<UOp* const> src_;
  Arg arg_;
  Shape shape_;
  Bounds bounds_;
  const std::string* device_ = nullptr;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_UOP_H_
