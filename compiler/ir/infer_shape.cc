#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

absl::Status ShapeError(absl::string_view text) { return MakeError(v1::SHAPE_MISMATCH, text); }

absl::StatusOr<Shape> InferPermute(const UOp& uop) {
  const Shape& from = uop.src(0)->shape();
  const auto& order = uop.arg_as<AxesArg>().axes;
  std::vector<bool> seen(from.size(), false);
  Shape shape;
  for (int64_t axis : order) {
    if (axis < 0 || axis >= static_cast<int64_t>(from.size()) || seen[axis]) break;
    seen[axis] = true;
    shape.push_back(from[axis]);
  }
  if (shape.size() == from.size() && order.size() == from.size()) return shape;
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("PERMUTE's order must name each of the ", from.size(), " axes once"));
}

// Whether both have as many elements for all values of the variables.
bool SameElements(Graph& graph, const Shape& a, const Shape& b) {
  if (IsConst(a) && IsConst(b)) {
    __int128 wanted = 1;
    for (int64_t size : b) wanted = std::min<__int128>(wanted * size, __int128{1} << 100);
    return wanted == NumElements(a);
  }
  Polynomial x(1), y(1);
  for (const Dim& size : a) x = x * PolynomialOf(graph, size);
  for (const Dim& size : b) y = y * PolynomialOf(graph, size);
  return x.Equals(y) || a == b;
}

absl::StatusOr<Shape> InferReshape(Graph& graph, const UOp& uop) {
  KILN_ASSIGN_OR_RETURN(Shape shape, ReadSizes(graph, uop.src(1)));
  const Shape& from = uop.src(0)->shape();
  if (SameElements(graph, from, shape)) return shape;
  return ShapeError(
      absl::StrCat("RESHAPE of ", ToString(from), " to ", ToString(shape), " changes the number of elements"));
}

absl::StatusOr<Shape> InferExpand(Graph& graph, const UOp& uop) {
  KILN_ASSIGN_OR_RETURN(Shape shape, ReadSizes(graph, uop.src(1)));
  const Shape& from = uop.src(0)->shape();
  bool fits = shape.size() == from.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = from[i] == shape[i] || from[i] == 1;
  if (fits) return shape;
  return ShapeError(
      absl::StrCat("EXPAND of ", ToString(from), " to ", ToString(shape), " would change an axis that is not 1"));
}

// In a program, SHRINK may be n neighbours in memory from a computed place on:
// an integer with a dtype of its own. That place may be any number.
bool IsPlaceInMemory(const UOp& uop) {
  const UOp* place = uop.src(1);
  return uop.op() == Op::SHRINK && place->op() != Op::STACK && place->shape().empty() && IsInt(place->dtype()) &&
         !IsWeak(place->dtype()) && uop.src(0)->shape().size() == 1 && uop.src(0)->addrspace() != AddrSpace::kNone;
}

absl::StatusOr<Shape> InferNeighbours(Graph& graph, const UOp& uop) {
  KILN_ASSIGN_OR_RETURN(const Shape lanes, ReadSizes(graph, uop.src(2)));
  if (lanes.size() == 1 && IsConst(lanes) && lanes[0].max() <= uop.src(0)->shape()[0].min()) return lanes;
  return ShapeError(absl::StrCat("SHRINK of ", ToString(uop.src(0)->shape()), " to ", ToString(lanes),
                                 ": the box must lie inside the tensor"));
}

// PAD and SHRINK: a box of one shape inside the other, at an offset.
absl::StatusOr<Shape> InferBox(Graph& graph, const UOp& uop) {
  if (IsPlaceInMemory(uop)) return InferNeighbours(graph, uop);
  KILN_ASSIGN_OR_RETURN(const Shape offset, ReadSizes(graph, uop.src(1)));
  KILN_ASSIGN_OR_RETURN(const Shape shape, ReadSizes(graph, uop.src(2)));
  const Shape& from = uop.src(0)->shape();
  const bool pad = uop.op() == Op::PAD;
  bool fits = shape.size() == from.size() && offset.size() == from.size();
  if (fits) {
    for (const Polynomial& room : RoomInBox(graph, uop)) {
      const std::optional<Bounds> range = room.Range();
      fits &= range.has_value() && range->max >= 0;
    }
  }
  if (fits) return shape;
  return ShapeError(
      absl::StrCat(Name(uop.op()), " of ", ToString(from), " to ", ToString(shape), " at ", ToString(offset),
                   pad ? ": the tensor must lie inside the new shape" : ": the box must lie inside the tensor"));
}

absl::StatusOr<Shape> InferBitcast(Graph& graph, const UOp& uop) {
  Shape shape = uop.src(0)->shape();
  const int from = ItemSize(uop.src(0)->dtype());
  const int to = ItemSize(uop.dtype());
  if (from == to) return shape;
  std::optional<Polynomial> last;
  if (from != 0 && to != 0 && !shape.empty())
    last = (PolynomialOf(graph, shape.back()) * Polynomial(from)).DividedBy(Polynomial(to));
  if (!last.has_value() || !last->Range().has_value()) {
    return ShapeError(absl::StrCat("BITCAST of ", ToString(shape), " from ", Name(uop.src(0)->dtype()), " to ",
                                   Name(uop.dtype()), ": the last axis does not come out even"));
  }
  shape.back() = DimOf(graph, *last);
  return shape;
}

absl::StatusOr<Shape> InferReduce(const UOp& uop) {
  Shape shape = uop.src(0)->shape();
  for (int64_t axis : uop.arg_as<ReduceArg>().axes) {
    if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) {
      return MakeError(v1::BAD_ARGUMENT,
                       absl::StrCat("REDUCE over axis ", axis, " of a tensor of shape ", ToString(shape)));
    }
    shape[axis] = 1;
  }
  for (UOp* range : uop.src().subspan(1)) {
    if (range->op() != Op::RANGE && range->op() != Op::SPECIAL)
      return MakeError(v1::BAD_ARGUMENT, "REDUCE's further sources must be RANGEs, or SPECIALs");
  }
  return shape;
}

absl::StatusOr<Shape> InferIndex(const UOp& uop) {
  const Shape& from = uop.src(0)->shape();
  const size_t indices = uop.src().size() - 1;
  if (indices > from.size())
    return ShapeError(absl::StrCat("INDEX with ", indices, " indices of a tensor of shape ", ToString(from)));
  Shape shape;
  for (UOp* index : uop.src().subspan(1)) shape.insert(shape.end(), index->shape().begin(), index->shape().end());
  shape.insert(shape.end(), from.begin() + indices, from.end());
  return shape;
}

absl::StatusOr<Shape> InferStack(const UOp& uop) {
  Shape shape = {Dim(static_cast<int64_t>(uop.src().size()))};
  if (uop.src().empty()) return shape;
  const Shape& element = uop.src(0)->shape();
  for (UOp* source : uop.src()) {
    if (source->shape() != element) {
      return ShapeError(
          absl::StrCat("STACK of ", ToString(element), " and ", ToString(source->shape()), ": all must be alike"));
    }
  }
  shape.insert(shape.end(), element.begin(), element.end());
  return shape;
}

// LOAD's alternative and gate, STORE's value and gate: each must broadcast to
// the shape of the memory.
absl::Status CheckFitsMemory(const UOp& uop) {
  const Shape& memory = uop.src(0)->shape();
  for (UOp* operand : uop.src().subspan(1)) {
    absl::StatusOr<Shape> both = Broadcast(memory, operand->shape());
    if (both.ok() && *both == memory) continue;
    return ShapeError(absl::StrCat(Name(uop.op()), " of ", ToString(operand->shape()),
                                   uop.op() == Op::LOAD ? " beside " : " into ", ToString(memory)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Shape> ReadSizes(Graph& graph, UOp* source) {
  const bool many = source->op() == Op::STACK;
  const absl::Span<UOp* const> elements = many ? source->src() : absl::MakeConstSpan(&source, 1);
  Shape sizes;
  for (UOp* element : elements) {
    if (!element->shape().empty() || !IsInt(element->dtype())) {
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a size or offset is an integer, not ", Name(element->op()),
                                                      " of ", Name(element->dtype())));
    }
    if (element->IsConst()) {
      if (element->const_int() < 0)
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a negative size or offset: ", element->const_int()));
      sizes.push_back(element->const_int());
      continue;
    }
    const Polynomial size = PolynomialOf(graph, element);
    if (!IsSize(graph, size)) {
      return MakeError(v1::BAD_ARGUMENT,
                       absl::StrCat("a size or offset is made of CONSTs and variables with ADD, MUL, MAX, FLOORDIV and "
                                    "FLOORMOD, and not too many of them; this one is, or has in it, ",
                                    Name(element->op())));
    }
    const std::optional<Bounds> range = size.Range();
    if (!range.has_value()) return MakeError(v1::SIZE_OVERFLOW, "a size or offset that may leave 64 bits");
    if (range->max < 0) {
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a size or offset that is negative whatever its variables are: ",
                                                      ToString(FromPolynomial(graph, size))));
    }
    sizes.push_back(DimOf(graph, size));
  }
  return sizes;
}

absl::StatusOr<Shape> ConstInts(const UOp* source) {
  const bool many = source->op() == Op::STACK;
  Shape sizes;
  for (size_t i = 0; i < (many ? source->src().size() : 1); ++i) {
    const UOp* element = many ? source->src(i) : source;
    if (!element->IsConst() || !IsInt(element->dtype()))
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("a size or offset that is no number: ", Name(element->op())));
    sizes.push_back(element->const_int());
  }
  return sizes;
}

std::vector<Polynomial> RoomInBox(Graph& graph, const UOp& uop) {
  const Shape offset = *ReadSizes(graph, uop.src(1)), shape = *ReadSizes(graph, uop.src(2));
  const Shape& from = uop.src(0)->shape();
  const bool pad = uop.op() == Op::PAD;
  std::vector<Polynomial> room;
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim &inner = pad ? from[i] : shape[i], &outer = pad ? shape[i] : from[i];
    room.push_back(PolynomialOf(graph, outer) - PolynomialOf(graph, inner) - PolynomialOf(graph, offset[i]));
  }
  return room;
}

absl::StatusOr<Shape> Broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape shape = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& size = shape[lead + i];
    if (size == shorter[i] || shorter[i] == 1) continue;
    if (size != 1) return ShapeError(absl::StrCat("shapes ", ToString(a), " and ", ToString(b), " do not broadcast"));
    size = shorter[i];
  }
  return shape;
}

absl::StatusOr<Shape> InferShape(Graph& graph, const UOp& uop) {
  const Op op = uop.op();
  if (IsElementwise(op)) {
    Shape shape = uop.src(0)->shape();
    for (UOp* source : uop.src().subspan(1)) {
      KILN_ASSIGN_OR_RETURN(shape, Broadcast(shape, source->shape()));
    }
    return shape;
  }
  switch (As<NonAluOp>(op)) {
    case NonAluOp::PARAM:
    case NonAluOp::BUFFER: return ReadSizes(graph, uop.src(0));
    case NonAluOp::BINARY: return Shape{Dim(static_cast<int64_t>(uop.arg_as<TextArg>().text.size()))};
    case NonAluOp::PERMUTE: return InferPermute(uop);
    case NonAluOp::RESHAPE: return InferReshape(graph, uop);
    case NonAluOp::EXPAND: return InferExpand(graph, uop);
    case NonAluOp::PAD:
    case NonAluOp::SHRINK: return InferBox(graph, uop);
    case NonAluOp::BITCAST: return InferBitcast(graph, uop);
    case NonAluOp::REDUCE: return InferReduce(uop);
    case NonAluOp::INDEX: return InferIndex(uop);
    case NonAluOp::STACK: return InferStack(uop);
    case NonAluOp::FLIP:
      if (uop.arg_as<AxesArg>().axes.size() != uop.src(0)->shape().size()) {
        return MakeError(v1::BAD_ARGUMENT,
                         absl::StrCat("FLIP wants one flag for each of ", uop.src(0)->shape().size(), " axes"));
      }
      return uop.src(0)->shape();
    case NonAluOp::RANGE:
    case NonAluOp::SPECIAL:
      if (!uop.src(0)->shape().empty() || !IsInt(uop.src(0)->dtype()))
        return ShapeError(absl::StrCat(Name(op), " wants one integer as its bound"));
      return Shape{};
    case NonAluOp::ATOMICADD:
    case NonAluOp::STORE: KILN_RETURN_IF_ERROR(CheckFitsMemory(uop)); return Shape{};
    case NonAluOp::WMMA: return uop.src(2)->shape();
    case NonAluOp::GETTUPLE: {
      const UOp* tuple = uop.src(0)->op() == Op::FUNCTION ? uop.src(0)->src(0) : uop.src(0);
      return tuple->src(uop.arg_as<int64_t>())->shape();
    }
    case NonAluOp::REPLICATED: {
      Shape shape = uop.src(0)->shape();
      const int64_t axis = uop.arg_as<int64_t>();
      if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) {
        return MakeError(v1::BAD_ARGUMENT, absl::StrCat("REPLICATED along axis ", axis, " of ", ToString(shape)));
      }
      shape.erase(shape.begin() + axis);
      return shape;
    }
    case NonAluOp::LOAD: KILN_RETURN_IF_ERROR(CheckFitsMemory(uop)); return uop.src(0)->shape();
    case NonAluOp::DETACH:
    case NonAluOp::CONTIGUOUS_BACKWARD:
    case NonAluOp::AFTER: return uop.src(0)->shape();
    // Single values, and what has none.
    case NonAluOp::CONST:
    case NonAluOp::FUNCTION:
    case NonAluOp::TUPLE:
    case NonAluOp::END:
    case NonAluOp::GROUP:
    case NonAluOp::SINK:
    case NonAluOp::LINEAR:
    case NonAluOp::CALL:
    case NonAluOp::BARRIER:
    case NonAluOp::IF:
    case NonAluOp::ENDIF:
    case NonAluOp::CUSTOM:
    case NonAluOp::CUSTOMI: return Shape{};
  }
  return Shape{};
}

}  // namespace kiln::compiler
