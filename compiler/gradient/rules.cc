#include "compiler/gradient/rules.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/gradient/layouts.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/movement.h"

namespace kiln::compiler {
namespace {

UOp* Number(Vjp& v, double value) { return ConstNumber(v.graph, v.dy->dtype(), value); }
UOp* Times(Vjp& v, UOp* a, UOp* b) { return Mul(v.graph, a, b); }
UOp* Times(Vjp& v, UOp* a, double b) { return Mul(v.graph, a, Number(v, b)); }
UOp* Over(Vjp& v, UOp* a, UOp* b) { return v.graph.Make(Op::FDIV, {a, b}); }
UOp* Differ(Vjp& v, UOp* a, UOp* b) { return v.graph.Make(Op::CMPNE, {a, b}); }
UOp* Choose(Vjp& v, UOp* condition, UOp* a, UOp* b) { return Where(v.graph, condition, a, b); }
Shape Sizes(UOp* source) { return *ConstInts(source); }

// What happens to the cotangent in a move, which the opposite move undoes.
UOp* Unmove(Vjp& v) {
  const Shape& shape = v.x(0)->shape();
  switch (As<MovementOp>(v.uop->op())) {
    case MovementOp::RESHAPE: return ReshapeTo(v.graph, v.dy, shape);
    case MovementOp::PERMUTE: return PermuteTo(v.graph, v.dy, InverseOrder(v.uop->arg_as<AxesArg>().axes));
    case MovementOp::FLIP: return v.graph.Make(Op::FLIP, {v.dy}, v.uop->arg());
    case MovementOp::PAD: return ShrinkTo(v.graph, v.dy, Sizes(v.x(1)), shape);
    case MovementOp::SHRINK: return PadWith(v.graph, v.dy, Sizes(v.x(1)), shape, 0);
    // EXPAND is undone by SumTo. The others have rules of their own, or none.
    case MovementOp::EXPAND:
    case MovementOp::INDEX:
    case MovementOp::STACK:
    case MovementOp::BITCAST:
    case MovementOp::REPLICATED: break;
  }
  return v.dy;
}

absl::Status NoRule(const Vjp& v) {
  return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("a gradient through ", Name(v.uop->op()),
                                                    ": gradients are of tensor graphs, and of what is in them"));
}

// LOAD(x, alternative, gate).
absl::Status LoadRule(Vjp& v) {
  if (v.uop->src().size() < 3) {
    v.Give(0, LaidOutAs(v.graph, v.dy, v.x(0)));  // back, if it is a COPY
    return absl::OkStatus();
  }
  const bool moves = v.uop->device() != v.x(0)->device();
  const bool somewhere = !v.x(0)->device().empty() || DeviceCount(v.uop->device()) > 1;
  if (moves && somewhere) return NoRule(v);  // a COPY with a gate
  v.Give(0, Choose(v, v.x(2), v.dy, Number(v, 0)));
  v.Give(1, Choose(v, v.x(2), Number(v, 0), v.dy));
  return absl::OkStatus();
}

// Equal rows, one for each device, of which one is the value. Where the rows are copies of
// one, its cotangent may come by any of them; else they share it evenly, and stay equal.
absl::Status ReplicatedRule(Vjp& v) {
  const auto axis = static_cast<size_t>(v.uop->arg_as<int64_t>());
  Shape row = v.x(0)->shape(), places(row.size(), 1);
  const int64_t rows = row[axis];
  row[axis] = 1;
  places[axis] = rows;
  const UOp* copied = v.x(0)->op() == Op::LOAD ? v.x(0)->src(0) : v.x(0);
  const bool copies = copied->op() == Op::EXPAND && copied->src(0)->shape()[axis] == 1;
  UOp* dy = ReshapeTo(v.graph, copies ? v.dy : Over(v, v.dy, Number(v, static_cast<double>(rows))), row);
  dy = Expand(v.graph, dy, v.x(0)->shape());
  if (copies) {
    UOp* place = ReshapeTo(v.graph, Counting(v.graph, rows), places);
    dy = Choose(v, Differ(v, place, ConstInt(v.graph, kIndexType, 0)), Number(v, 0), dy);
  }
  v.Give(0, dy);
  return absl::OkStatus();
}

absl::Status BitsRule(Vjp& v) {
  if (v.uop->dtype() == v.x(0)->dtype()) {
    v.Give(0, v.dy);
    return absl::OkStatus();
  }
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the bits of a ", Name(v.x(0)->dtype()),
                                                  " have no derivative; where none is meant, put a DETACH before"));
}

}  // namespace

void Vjp::Give(size_t i, UOp* cotangent) {
  if (!Wants(i)) return;
  cotangent = SumTo(graph, cotangent, x(i)->shape());
  given_[i] = given_[i] == nullptr ? cotangent : Add(graph, given_[i], cotangent);
}

// In the comments: y the node, a, b, c its operands, d. a cotangent.
absl::Status ApplyGradientRule(Vjp& v) {
  UOp* const y = v.uop;
  UOp* const dy = v.dy;
  constexpr double kLn2 = std::numbers::ln2;
  const auto both = [&v](UOp* da, UOp* db) {
    v.Give(0, da);
    v.Give(1, db);
    return absl::OkStatus();
  };
  const auto one = [&v](UOp* da) {
    v.Give(0, da);
    return absl::OkStatus();
  };
  switch (y->op()) {
    case Op::ADD: return both(dy, dy);
    case Op::MUL: return both(Times(v, dy, v.x(1)), Times(v, dy, v.x(0)));
    case Op::FDIV: {  // da = dy / b, db = -da y
      UOp* da = Over(v, dy, v.x(1));
      return both(da, Times(v, Times(v, da, y), -1));
    }
    case Op::RECIPROCAL: return one(Times(v, Times(v, dy, Times(v, y, y)), -1));
    case Op::SQRT: return one(Over(v, dy, Times(v, y, 2)));
    case Op::EXP2: return one(Times(v, dy, Times(v, y, kLn2)));
    case Op::LOG2: return one(Over(v, dy, Times(v, v.x(0), kLn2)));
    case Op::WHERE:
      v.Give(1, Choose(v, v.x(0), dy, Number(v, 0)));
      v.Give(2, Choose(v, v.x(0), Number(v, 0), dy));
      return absl::OkStatus();
    case Op::CAST: return one(Cast(v.graph, dy, v.x(0)->dtype()));
    case Op::SIN: return SinRule(v);
    case Op::POW: return PowRule(v);
    case Op::MAX: return MaxRule(v);

    case Op::RESHAPE:
    case Op::PERMUTE:
    case Op::FLIP:
    case Op::PAD:
    case Op::SHRINK:
    case Op::EXPAND: return one(Unmove(v));
    case Op::STACK: return StackRule(v);
    case Op::INDEX: return IndexRule(v);
    case Op::BITCAST: return BitsRule(v);
    case Op::REDUCE: return ReduceRule(v);

    case Op::LOAD: return LoadRule(v);
    case Op::REPLICATED: return ReplicatedRule(v);
    case Op::AFTER: return one(dy);
    case Op::CONTIGUOUS_BACKWARD: return one(v.graph.Make(Op::LOAD, {dy}));

    // Steps: flat almost everywhere.
    case Op::TRUNC:
    case Op::CMPLT:
    case Op::CMPNE:
    case Op::DETACH: return absl::OkStatus();

    // No operand that is a float.
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::CDIV:
    case Op::CMOD:
    case Op::XOR:
    case Op::OR:
    case Op::AND:
    case Op::SHL:
    case Op::SHR:
    case Op::THREEFRY:
    case Op::PARAM:
    case Op::BUFFER:
    case Op::CONST:
    case Op::BINARY: return absl::OkStatus();

    // No values of a tensor graph. FUNCTION and GETTUPLE are resolved where a graph is read.
    case Op::FUNCTION:
    case Op::TUPLE:
    case Op::GETTUPLE:
    case Op::STORE:
    case Op::RANGE:
    case Op::END:
    case Op::GROUP:
    case Op::SINK:
    case Op::LINEAR:
    case Op::CALL:
    case Op::SPECIAL:
    case Op::BARRIER:
    case Op::IF:
    case Op::ENDIF:
    case Op::ATOMICADD:
    case Op::CUSTOM:
    case Op::CUSTOMI:
    case Op::WMMA: return NoRule(v);
  }
  return NoRule(v);
}

// The greater operand has the whole cotangent, equal ones have half each; a NaN
// has none.
absl::Status MaxRule(Vjp& v) {
  UOp* a = v.x(0);
  UOp* b = v.x(1);
  UOp* tie = Choose(v, Differ(v, a, b), Number(v, 0), Times(v, v.dy, 0.5));
  v.Give(0, Choose(v, Lt(v.graph, b, a), v.dy, tie));
  v.Give(1, Choose(v, Lt(v.graph, a, b), v.dy, tie));
  return absl::OkStatus();
}

// cos x = 1 - 2 sin(x/2)^2: x/2 is exact, so the error stays near that of 1 however
// large x is. pi/2 - x would lose x's last bits.
absl::Status SinRule(Vjp& v) {
  UOp* half = v.graph.Make(Op::SIN, {Times(v, v.x(0), 0.5)});
  UOp* cosine = Add(v.graph, Number(v, 1), Times(v, Times(v, half, half), -2));
  v.Give(0, Times(v, v.dy, cosine));
  return absl::OkStatus();
}

// da = dy b a^(b-1), and 0 for b = 0 whatever a is. db = dy y ln a; for a = 0 the
// limit: 0, or -inf below b = 0.
absl::Status PowRule(Vjp& v) {
  UOp* a = v.x(0);
  UOp* b = v.x(1);
  UOp* zero = Number(v, 0);
  if (v.Wants(0)) {
    UOp* slope = Times(v, b, v.graph.Make(Op::POW, {a, Add(v.graph, b, Number(v, -1))}));
    v.Give(0, Times(v, v.dy, Choose(v, Differ(v, b, zero), slope, zero)));
  }
  if (v.Wants(1)) {
    UOp* log = Times(v, v.graph.Make(Op::LOG2, {a}), std::numbers::ln2);
    if (a->IsConst() && FloatValue(a->dtype(), a->arg_as<ConstArg>().bits) != 0) {
      v.Give(1, Times(v, v.dy, Times(v, v.uop, log)));  // an exponential, as EXP2 is
      return absl::OkStatus();
    }
    UOp* limit = Choose(v, Lt(v.graph, b, zero), Number(v, -std::numeric_limits<double>::infinity()), zero);
    v.Give(1, Times(v, v.dy, Choose(v, Differ(v, a, zero), Times(v, v.uop, log), limit)));
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
