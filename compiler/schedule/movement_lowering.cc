// The part of IndexLowering that turns movement ops into index arithmetic.
#include <algorithm>

#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/polynomial.h"
#include "compiler/schedule/index_lowering.h"

namespace kiln::compiler {
namespace {

Shape Sizes(Graph& graph, UOp* source) {
  absl::StatusOr<Shape> sizes = ReadSizes(graph, source);
  KILN_CHECK(sizes.ok());  // inference has read it before
  return *std::move(sizes);
}

}  // namespace

// -- Arithmetic

UOp* IndexLowering::Plus(UOp* a, const Dim& b) { return b == 0 ? a : S(Add(graph_, a, IndexOf(graph_, b))); }
UOp* IndexLowering::Minus(UOp* a, const Dim& b) {
  return b.IsConst() ? Plus(a, -b.max()) : S(Add(graph_, a, Mul(graph_, b.expr(), Idx(graph_, -1))));
}
UOp* IndexLowering::Times(UOp* a, const Dim& b) { return b == 1 ? a : S(Mul(graph_, a, IndexOf(graph_, b))); }

bool IndexLowering::IsBelow(UOp* index, const Dim& size) {
  if (index->bounds().max < size.min()) return true;
  if (size.IsConst()) return false;
  return IsNonNegative(graph_, PolynomialOf(graph_, size) - PolynomialOf(graph_, index) - Polynomial(1));
}

UOp* IndexLowering::InRange(UOp* index, const Dim& size) {
  UOp* condition = nullptr;
  const bool positive =
      index->bounds().min >= 0 || (!size.IsConst() && IsNonNegative(graph_, PolynomialOf(graph_, index)));
  if (!positive) condition = S(Not(graph_, Lt(graph_, index, Idx(graph_, 0))));
  if (!IsBelow(index, size)) condition = Both(condition, S(Lt(graph_, index, IndexOf(graph_, size))));
  return condition;
}

UOp* IndexLowering::Both(UOp* a, UOp* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  UOp* both = S(And(graph_, a, b));
  return both->IsConstInt(1) ? nullptr : both;
}

Indices IndexLowering::Unreshape(const Shape& from, const Shape& to, const Indices& indices) {
  if (!IsConst(from) || !IsConst(to)) return UnreshapeSymbolic(from, to, indices);
  Indices result;
  if (NumElements(from) == 0) return Indices(from.size(), Idx(graph_, 0));
  // Axes whose sizes multiply to the same number form a group on their own, so
  // that untouched axes keep their index without any division.
  size_t i = 0, j = 0;
  while (i < from.size()) {
    if (from[i] == 1) {
      result.push_back(Idx(graph_, 0));
      ++i;
      continue;
    }
    int64_t from_size = from[i], to_size = 1;
    size_t from_end = i + 1;
    UOp* flat = nullptr;
    while (true) {
      while (to_size < from_size || j == 0) {
        if (j >= to.size()) break;
        if (to[j] != 1) {
          flat = flat == nullptr ? indices[j] : S(Add(graph_, Times(flat, to[j]), indices[j]));
          to_size *= to[j];
        }
        ++j;
        if (to_size >= from_size) break;
      }
      if (to_size == from_size) break;
      KILN_CHECK(from_end < from.size());
      from_size *= from[from_end++];
    }
    int64_t stride = from_size;
    for (; i < from_end; ++i) {
      stride /= from[i];
      UOp* part = stride == 1 ? flat : S(graph_.Make(Op::FLOORDIV, {flat, Idx(graph_, stride)}));
      result.push_back(S(graph_.Make(Op::FLOORMOD, {part, Idx(graph_, from[i])})));
    }
  }
  return result;
}

// The same by polynomials: groups end where as many elements lie before them on
// both sides, whatever the variables are.
Indices IndexLowering::UnreshapeSymbolic(const Shape& from, const Shape& to, const Indices& indices) {
  Indices result(from.size(), Idx(graph_, 0));
  std::vector<size_t> ours, theirs;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) ours.push_back(i);
  }
  for (size_t j = 0; j < to.size(); ++j) {
    if (to[j] != 1) theirs.push_back(j);
  }
  size_t i = 0, j = 0;
  while (i < ours.size()) {
    size_t i_end = ours.size(), j_end = theirs.size();
    bool found = false;
    Polynomial x(1);
    for (size_t a = i; a < ours.size() && !found; ++a) {
      x = x * PolynomialOf(graph_, from[ours[a]]);
      Polynomial y(1);
      for (size_t b = j; b < theirs.size() && !found; ++b) {
        y = y * PolynomialOf(graph_, to[theirs[b]]);
        found = x.Equals(y);
        if (found) i_end = a + 1, j_end = b + 1;
      }
    }
    UOp* flat = Idx(graph_, 0);
    for (; j < j_end; ++j) flat = S(Add(graph_, Times(flat, to[theirs[j]]), indices[theirs[j]]));
    // Wherever an element is, no size is 0.
    Polynomial rest = PolynomialOf(graph_, flat);
    for (size_t k = i_end; k-- > i + 1;) {
      const Polynomial size = PolynomialOf(graph_, from[ours[k]]);
      result[ours[k]] = S(FromPolynomial(graph_, FloorRemainder(graph_, rest, size)));
      rest = FloorDivide(graph_, rest, size);
    }
    result[ours[i]] = i_end == i + 1 ? flat : S(FromPolynomial(graph_, rest));
    i = i_end;
  }
  return result;
}

Indices IndexLowering::Unpad(const UOp* pad, const Indices& indices, UOp*& inside) {
  const Shape offset = Sizes(graph_, pad->src(1));
  const Shape& shape = pad->src(0)->shape();
  Indices mine;
  inside = nullptr;
  for (size_t i = 0; i < indices.size(); ++i) {
    mine.push_back(Minus(indices[i], offset[i]));
    inside = Both(inside, InRange(mine.back(), shape[i]));
  }
  return mine;
}

// -- Ops with one data source

bool IndexLowering::NextMovement(Frame& frame, Request& next) {
  if (!frame.got.empty()) return false;
  const UOp* uop = frame.request.uop;
  UOp* source = uop->src(0);
  const Indices& indices = frame.request.indices;
  const Shape& shape = source->shape();
  Indices mine(shape.size());
  UOp* gate = frame.request.gate;
  switch (uop->op()) {
    case Op::PERMUTE: {
      const auto& order = uop->arg_as<AxesArg>().axes;
      for (size_t i = 0; i < order.size(); ++i) mine[order[i]] = indices[i];
      break;
    }
    case Op::FLIP: {
      const auto& flags = uop->arg_as<AxesArg>().axes;
      for (size_t i = 0; i < shape.size(); ++i)
        mine[i] = flags[i] ? Plus(Plus(Times(indices[i], -1), shape[i]), -1) : indices[i];
      break;
    }
    case Op::RESHAPE: mine = Unreshape(shape, uop->shape(), indices); break;
    case Op::EXPAND:
      for (size_t i = 0; i < shape.size(); ++i) mine[i] = shape[i] == 1 ? Idx(graph_, 0) : indices[i];
      break;
    case Op::SHRINK: {
      const Shape offset = Sizes(graph_, uop->src(1));
      for (size_t i = 0; i < shape.size(); ++i) mine[i] = Plus(indices[i], offset[i]);
      break;
    }
    default: {
      KILN_CHECK(uop->op() == Op::PAD);
      UOp* inside = nullptr;
      mine = Unpad(uop, indices, inside);
      gate = Both(gate, inside);
      break;
    }
  }
  next = {source, std::move(mine), gate, frame.request.state};
  return true;
}

UOp* IndexLowering::FinishPad(Frame& frame) {
  const UOp* uop = frame.request.uop;
  UOp* inside = nullptr;
  Unpad(uop, frame.request.indices, inside);
  if (inside == nullptr) return frame.got[0];
  return S(Where(graph_, inside, frame.got[0], graph_.Make(Op::CONST, {}, uop->arg_as<ConstArg>())));
}

// -- INDEX(T, i0, i1, ...): first the indices, then T where they point.

bool IndexLowering::NextIndex(Frame& frame, Request& next) {
  const UOp* uop = frame.request.uop;
  const size_t count = uop->src().size() - 1;
  const Request& request = frame.request;
  if (frame.got.size() < count) {
    size_t begin = 0;
    for (size_t k = 0; k < frame.got.size(); ++k) begin += uop->src(k + 1)->shape().size();
    UOp* index = uop->src(frame.got.size() + 1);
    next = {index, Indices(request.indices.begin() + begin, request.indices.begin() + begin + index->shape().size()),
            request.gate, 0};
    return true;
  }
  if (frame.got.size() > count) return false;
  Indices mine;
  UOp* gate = request.gate;
  size_t begin = 0;
  for (size_t k = 0; k < count; ++k) {
    mine.push_back(S(Cast(graph_, frame.got[k], kIndexType)));
    gate = Both(gate, InRange(mine.back(), uop->src(0)->shape()[k]));
    begin += uop->src(k + 1)->shape().size();
  }
  mine.insert(mine.end(), request.indices.begin() + begin, request.indices.end());
  next = {uop->src(0), std::move(mine), gate, request.state};
  return true;
}

UOp* IndexLowering::FinishIndex(Frame& frame) {
  const UOp* uop = frame.request.uop;
  UOp* inside = nullptr;
  for (size_t k = 0; k + 1 < frame.got.size(); ++k) {
    UOp* index = S(Cast(graph_, frame.got[k], kIndexType));
    inside = Both(inside, InRange(index, uop->src(0)->shape()[k]));
  }
  if (inside == nullptr) return frame.got.back();
  return S(Where(graph_, inside, frame.got.back(), ConstNumber(graph_, uop->dtype(), 0)));
}

// -- STACK: each source where the leading index names it.

bool IndexLowering::NextStack(Frame& frame, Request& next) {
  const UOp* uop = frame.request.uop;
  const Indices& indices = frame.request.indices;
  const Indices inner(indices.begin() + 1, indices.end());
  if (indices[0]->IsConst()) {
    const auto k = static_cast<uint64_t>(indices[0]->const_int());
    if (!frame.got.empty() || k >= uop->src().size()) return false;
    next = {uop->src(k), inner, frame.request.gate, frame.request.state};
    return true;
  }
  const size_t k = frame.got.size();
  if (k == uop->src().size()) return false;
  UOp* here = S(Not(graph_, graph_.Make(Op::CMPNE, {indices[0], Idx(graph_, static_cast<int64_t>(k))})));
  next = {uop->src(k), inner, Both(frame.request.gate, here), frame.request.state};
  return true;
}

UOp* IndexLowering::FinishStack(Frame& frame) {
  const Indices& indices = frame.request.indices;
  // Past its ends nobody looks: a PAD gates it, or there is no element at all.
  if (frame.got.empty()) return ConstNumber(graph_, frame.request.uop->dtype(), 0);
  if (indices[0]->IsConst()) return frame.got[0];
  UOp* result = frame.got.back();
  for (size_t k = frame.got.size() - 1; k-- > 0;) {
    UOp* after = S(Lt(graph_, Idx(graph_, static_cast<int64_t>(k)), indices[0]));
    result = S(Where(graph_, after, result, frame.got[k]));
  }
  return result;
}

// -- BITCAST: items of another size are cut up or put together.

bool IndexLowering::NextBitcast(Frame& frame, Request& next) {
  const UOp* uop = frame.request.uop;
  const int64_t from = ItemSize(uop->src(0)->dtype()), to = ItemSize(uop->dtype());
  Indices mine = frame.request.indices;
  const auto k = static_cast<int64_t>(frame.got.size());
  if (k == std::max<int64_t>(1, to / from)) return false;
  if (from > to) mine.back() = S(graph_.Make(Op::FLOORDIV, {mine.back(), Idx(graph_, from / to)}));
  if (from < to) mine.back() = Plus(Times(mine.back(), to / from), k);
  next = {uop->src(0), std::move(mine), frame.request.gate, frame.request.state};
  return true;
}

UOp* IndexLowering::FinishBitcast(Frame& frame) {
  const UOp* uop = frame.request.uop;
  const int from = ItemSize(uop->src(0)->dtype()), to = ItemSize(uop->dtype());
  const DType small = UnsignedOfSize(std::min(from, to)), large = UnsignedOfSize(std::max(from, to));
  auto as = [this](UOp* x, DType dtype) {
    // A bool's byte is 0 or 1, and any other byte is true.
    if (x->dtype() == DType::kBool) return S(Cast(graph_, x, dtype));
    if (dtype == DType::kBool) return S(graph_.Make(Op::CMPNE, {x, ConstInt(graph_, x->dtype(), 0)}));
    return S(Bitcast(graph_, x, dtype));
  };
  if (from == to) return as(as(frame.got[0], small), uop->dtype());
  if (from > to) {
    UOp* byte_index = S(graph_.Make(Op::FLOORMOD, {frame.request.indices.back(), Idx(graph_, from / to)}));
    UOp* count = S(Cast(graph_, Times(byte_index, 8 * to), large));
    UOp* part = S(graph_.Make(Op::SHR, {as(frame.got[0], large), count}));
    return as(S(Cast(graph_, part, small)), uop->dtype());
  }
  UOp* whole = nullptr;
  for (size_t k = 0; k < frame.got.size(); ++k) {
    UOp* part = S(Cast(graph_, as(frame.got[k], small), large));
    part = S(graph_.Make(Op::SHL, {part, ConstInt(graph_, large, static_cast<int64_t>(8 * from * k))}));
    whole = whole == nullptr ? part : S(graph_.Make(Op::OR, {whole, part}));
  }
  return as(whole, uop->dtype());
}

// -- Targets of STOREs

IndexLowering::Place IndexLowering::LowerTarget(UOp* target, const Indices& indices) {
  Indices mine = indices;
  UOp* inside = nullptr;
  while (target->op() != Op::PARAM && target->op() != Op::BUFFER) {
    if (target->op() == Op::INDEX) {
      // Its indices are values of their own.
      Indices source;
      size_t begin = 0;
      for (size_t k = 1; k < target->src().size(); ++k) {
        UOp* index = target->src(k);
        const size_t rank = index->shape().size();
        UOp* lowered = Lower(index, Indices(mine.begin() + begin, mine.begin() + begin + rank));
        source.push_back(S(Cast(graph_, lowered, kIndexType)));
        inside = Both(inside, InRange(source.back(), target->src(0)->shape()[k - 1]));
        begin += rank;
      }
      source.insert(source.end(), mine.begin() + begin, mine.end());
      mine = std::move(source);
    } else if (target->op() != Op::AFTER) {
      Frame frame{{target, mine, nullptr, 0}, {}, {}};
      Request next;
      KILN_CHECK(NextMovement(frame, next));
      mine = next.indices;
    }
    target = target->src(0);
  }
  return {Flatten(target->shape(), mine), inside};
}

}  // namespace kiln::compiler
