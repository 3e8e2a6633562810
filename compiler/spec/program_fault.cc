#include "compiler/spec/program_fault.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/spec/program_spec.h"
#include "compiler/spec/wmma_layout.h"
#include "compiler/structure/program_scopes.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {
namespace {

ProgramFault Bad(std::string text) { return {v1::BAD_ARGUMENT, std::move(text)}; }
ProgramFault BadShape(std::string text) { return {v1::SHAPE_MISMATCH, std::move(text)}; }
ProgramFault NotBuilt(std::string text) { return {v1::UNSUPPORTED_OP, std::move(text)}; }

bool IsPointer(const UOp* uop) {
  while (uop->op() == Op::AFTER) uop = uop->src(0);
  return (uop->op() == Op::INDEX || uop->op() == Op::SHRINK) && IsMemory(uop);
}

bool AccessesMemory(Op op) { return op == Op::LOAD || op == Op::STORE || op == Op::ATOMICADD; }

ProgramFault StorageFault(const UOp* uop) {
  const AddrSpace space = uop->addrspace();
  if (uop->IsVariable()) return {};
  if (uop->op() == Op::PARAM && space != AddrSpace::kGlobal) return NotBuilt("a PARAM that is not GLOBAL storage");
  if (uop->op() == Op::BUFFER && space != AddrSpace::kLocal && space != AddrSpace::kReg)
    return Bad("a BUFFER that is not LOCAL or REG; a program's other storage are PARAMs");
  if (!IsConst(uop->shape())) {
    return NotBuilt(absl::StrCat("storage of shape ", ToString(uop->shape()),
                                 "; in a program it has the greatest size that it may need, a number"));
  }
  return {};
}

ProgramFault PointerFault(const UOp* uop) {
  if (!IsBareStorage(uop->src(0)))
    return Bad("a pointer into a pointer; INDEX and SHRINK take a PARAM, a BUFFER or an AFTER of one");
  const size_t rank = uop->src(0)->shape().size();
  if (uop->op() == Op::INDEX && uop->src().size() - 1 != rank) {
    return BadShape(absl::StrCat(uop->src().size() - 1, " indices of storage of shape ", ToString(uop->src(0)->shape()),
                                 "; a place wants one for each axis"));
  }
  if (uop->op() == Op::SHRINK && (rank != 1 || !uop->src(1)->shape().empty())) {
    return BadShape(absl::StrCat("neighbours in storage of shape ", ToString(uop->src(0)->shape()),
                                 "; SHRINK wants one axis, a place and a CONST number of lanes"));
  }
  return {};
}

ProgramFault LaneFault(const UOp* uop) {
  if (uop->src().size() != 2 || uop->src(0)->shape().size() != 1 || !uop->src(1)->IsConst())
    return Bad("an INDEX of a value takes one lane of a vector, by a CONST");
  const Bounds& lane = uop->src(1)->bounds();
  if (lane.min < 0 || lane.min >= uop->src(0)->shape()[0]) {
    return Bad(
        absl::StrCat("lane ", static_cast<int64_t>(lane.min), " of a vector of ", int64_t{uop->src(0)->shape()[0]}));
  }
  return {};
}

ProgramFault CoordinateFault(const UOp* uop) {
  char kind;
  int axis;
  const std::string& name = uop->arg_as<TextArg>().text;
  if (!ParseCoordinate(name, kind, axis))
    return Bad(absl::StrCat("a coordinate \"", name, "\"; there are gidx0..2, lidx0..2 and idx0..2"));
  if (!IsKnownAtLaunch(uop->src(0)) || uop->src(0)->bounds().min < 1)
    return Bad(absl::StrCat("the bound of ", name, " is not a number of at least 1, made of CONSTs and variables"));
  return {};
}

ProgramFault CodeFault(const UOp* uop) {
  const auto is_byte = [](DType dtype) { return IsFloat(dtype) && ItemSize(dtype) == 1; };
  if (is_byte(uop->dtype())) return NotBuilt(absl::StrCat("code of dtype ", Name(uop->dtype())));
  for (const UOp* source : uop->src()) {
    if (source->dtype() == DType::kVoid) return Bad("code over something that has no value");
    if (!source->shape().empty()) return BadShape("code over a vector; its sources are scalars");
    if (is_byte(source->dtype())) return NotBuilt(absl::StrCat("code over a ", Name(source->dtype())));
  }
  return {};
}

ProgramFault WmmaFault(const UOp* uop) {
  const WmmaArg& arg = uop->arg_as<WmmaArg>();
  const auto sized = [](int64_t n) { return n >= 1 && n <= 256; };
  if (!sized(arg.m) || !sized(arg.n) || !sized(arg.k)) return Bad("sizes of a WMMA are from 1 to 256");
  const bool by_one = arg.threads == 1;
  if (!by_one && !LayoutOf(arg).has_value()) {
    return NotBuilt(absl::StrCat("WMMA (", arg.n, ", ", arg.m, ", ", arg.k, ") of ", Name(arg.in), " into ",
                                 Name(arg.out), " by ", arg.threads,
                                 " items; one item may do any (n, m, k); together do: ", WmmaShapes()));
  }
  const int64_t sizes[3] = {arg.m * arg.k / arg.threads, arg.k * arg.n / arg.threads, arg.m * arg.n / arg.threads};
  for (size_t i = 0; i < 3; ++i) {
    const DType wanted = i == 2 ? arg.out : arg.in;
    if (uop->src(i)->shape() == Shape{sizes[i]} && uop->src(i)->dtype() == wanted) continue;
    return BadShape(absl::StrCat("operand ", i, " of shape ", ToString(uop->src(i)->shape()), " and ",
                                 Name(uop->src(i)->dtype()), "; each item holds ", sizes[i], " of ", Name(wanted)));
  }
  return {};
}

}  // namespace

ProgramFault FaultOf(const UOp* uop, const Limits& limits) {
  const Op op = uop->op();
  if (!kProgramSpec.Allows(op)) return NotBuilt("an op that no program has");
  if (op == Op::PARAM || op == Op::BUFFER) return StorageFault(uop);
  if (NeedsNoListing(uop)) return {};
  if (IsWeak(uop->dtype())) return {v1::DTYPE_MISMATCH, "a weak value that nothing settles; CAST it"};

  // What reads or writes memory, and what says where; all else takes values.
  const bool pointing = (op == Op::INDEX || op == Op::SHRINK || op == Op::AFTER) && IsMemory(uop);
  const size_t first_value = AccessesMemory(op) || pointing ? 1 : 0;
  for (size_t i = first_value; i < ValueSources(uop); ++i) {
    if (IsMemory(uop->src(i)))
      return Bad(absl::StrCat("source ", i, " (", Name(uop->src(i)->op()), ") is memory, not a value; LOAD it first"));
    if (uop->src(i)->IsInvalid()) return Bad(absl::StrCat("source ", i, " is Invalid; a gate says it in a program"));
  }
  if (AccessesMemory(op) && !IsPointer(uop->src(0)))
    return Bad("the place is not an INDEX or SHRINK of a PARAM or BUFFER");
  if (uop->shape().size() > 1 && !IsBareStorage(uop))
    return BadShape(
        absl::StrCat("a shape of ", ToString(uop->shape()), "; values are () or vectors, and so are pointers"));
  if (!IsConst(uop->shape()) && !IsBareStorage(uop))
    return BadShape(absl::StrCat("a vector of ", ToString(uop->shape()), " lanes; their count is a number"));
  if (uop->shape().size() == 1 && !IsBareStorage(uop) &&
      (uop->shape()[0] < 1 || uop->shape()[0] > int64_t{limits.max_lanes})) {
    return BadShape(
        absl::StrCat("a vector of ", int64_t{uop->shape()[0]}, " lanes; they have 1 to ", limits.max_lanes, " here"));
  }
  switch (op) {
    case Op::INDEX: return pointing ? PointerFault(uop) : LaneFault(uop);
    case Op::SHRINK:
      if (!pointing) return NotBuilt("a part of a value; INDEX takes a lane");
      return PointerFault(uop);
    case Op::BITCAST: return {};
    case Op::CUSTOM:
    case Op::CUSTOMI: return CodeFault(uop);
    case Op::SPECIAL: return CoordinateFault(uop);
    case Op::WMMA: return WmmaFault(uop);
    case Op::IF:
      if (!uop->src(0)->shape().empty()) return BadShape("a gate with lanes; an IF wants one bool");
      return {};
    case Op::RANGE:
      if (uop->arg_as<RangeArg>().type == AxisType::kDevice) return NotBuilt("a loop over devices");
      return {};
    case Op::END:
      for (const UOp* loop : uop->src().subspan(1)) {
        if (loop->op() != Op::RANGE) return Bad(absl::StrCat("END closes RANGEs, not ", Name(loop->op())));
      }
      if (uop->src().size() < 2) return Bad("an END of no RANGE");
      return {};
    default: return {};
  }
}

}  // namespace kiln::compiler
