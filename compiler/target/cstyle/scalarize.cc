#include "compiler/target/cstyle/scalarize.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/program/list_rewrite.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kMaxProducts = 4096;  // of one WMMA written out

absl::Status Unsupported(absl::string_view text) { return MakeError(v1::UNSUPPORTED_OP, text); }

// Whether `n` divides an index whatever its variables are.
bool Divides(int64_t n, const UOp* index, int depth = 0) {
  if (depth > 16) return false;
  switch (index->op()) {
    case Op::CONST: return index->const_int() % n == 0;
    case Op::ADD: return Divides(n, index->src(0), depth + 1) && Divides(n, index->src(1), depth + 1);
    case Op::MUL: return Divides(n, index->src(0), depth + 1) || Divides(n, index->src(1), depth + 1);
    case Op::CAST: return IsInt(index->src(0)->dtype()) && Divides(n, index->src(0), depth + 1);
    default: return false;
  }
}

class Scalarizer {
 public:
  Scalarizer(Graph& graph, const Dialect& dialect, Reads reads) : graph_(graph), dialect_(dialect), reads_(reads) {}

  absl::StatusOr<UOp*> Rule(UOp* uop) {
    if (uop->op() == Op::INDEX) return PointedStorage(uop) != nullptr ? Flatten(uop) : LaneOf(uop);
    if (uop->op() == Op::WMMA) return WriteOut(uop);
    if (uop->op() == Op::BITCAST) return BitcastLanes(uop);
    const bool access = uop->op() == Op::LOAD || uop->op() == Op::STORE || uop->op() == Op::ATOMICADD;
    const Shape& shape = access ? uop->src(0)->shape() : uop->shape();
    if (!(access || IsElementwise(uop->op())) || shape.empty()) return uop;
    if (shape.size() > 1) return Unsupported(absl::StrCat(Name(uop->op()), " of shape ", ToString(shape)));
    if (access && IsVectorAccess(uop)) return InVectors(uop);
    std::vector<UOp*> lanes;
    for (int64_t i = 0; i < shape[0]; ++i) {
      std::vector<UOp*> src;
      for (size_t k = 0; k < uop->src().size(); ++k)
        src.push_back(access && k == 0 ? PlaceOf(uop, i) : Lane(uop->src(k), i));
      lanes.push_back(graph_.Make(uop->op(), src, uop->arg()));
    }
    return graph_.Make(uop->op() == Op::STORE || uop->op() == Op::ATOMICADD ? Op::GROUP : Op::STACK, lanes);
  }

 private:
  UOp* Lane(UOp* value, int64_t i) {
    if (value->shape().empty()) return value;
    if (value->shape()[0] == 1) i = 0;
    return value->op() == Op::STACK ? value->src(i) : graph_.Make(Op::INDEX, {value, Idx(graph_, i)});
  }

  absl::StatusOr<UOp*> LaneOf(UOp* uop) {
    if (uop->src().size() != 2 || uop->src(0)->shape().size() != 1) return Unsupported("INDEX of a value of many axes");
    if (!uop->src(1)->IsConst()) return Unsupported("INDEX of a value's lanes by a number that is not constant");
    const int64_t lane = uop->src(1)->const_int();
    if (lane < 0 || lane >= uop->src(0)->shape()[0]) return ConstNumber(graph_, uop->dtype(), 0);
    return Lane(uop->src(0), lane);
  }

  // -- Storage

  // INDEX(storage (a, b), i, j) is INDEX(storage (a * b), i * b + j).
  absl::StatusOr<UOp*> Flatten(UOp* uop) {
    const Shape& shape = uop->src(0)->shape();
    if (uop->src().size() == 2 && shape.size() == 1) return uop;
    if (uop->src().size() != shape.size() + 1) return Unsupported("INDEX that leaves axes of storage open");
    UOp* place = Idx(graph_, 0);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      UOp* index = Cast(graph_, uop->src(axis + 1), kIndexType);
      if (index->IsConstInt(0) && axis == 0) continue;
      UOp* above = place->IsConstInt(0) ? nullptr : Mul(graph_, place, Idx(graph_, shape[axis]));
      place = above == nullptr ? index : Add(graph_, above, index);
    }
    return graph_.Make(Op::INDEX, {OneAxis(uop->src(0)), place});
  }

  UOp* OneAxis(UOp* storage) {
    if (storage->op() == Op::AFTER) {
      std::vector<UOp*> src(storage->src().begin(), storage->src().end());
      src[0] = OneAxis(src[0]);
      return graph_.Make(Op::AFTER, src);
    }
    return graph_.Make(storage->op(), {ShapeSource(graph_, {NumElements(storage->shape())})}, storage->arg());
  }

  // Where lane `i` of an access lies. It is marked with the access's own pointer:
  // a scalar access to the same place is another one, at its own time.
  UOp* PlaceOf(UOp* access, int64_t i) {
    UOp* pointer = access->src(0);
    while (pointer->op() == Op::AFTER && pointer->src(0)->op() != Op::PARAM && pointer->src(0)->op() != Op::BUFFER)
      pointer = pointer->src(0);
    UOp* place = nullptr;
    if (pointer->op() == Op::SHRINK) {
      UOp* offset =
          Cast(graph_, pointer->src(1)->op() == Op::STACK ? pointer->src(1)->src(0) : pointer->src(1), kIndexType);
      UOp* index = offset->IsConst() ? Idx(graph_, offset->const_int() + i)
                   : i == 0          ? offset
                                     : Add(graph_, offset, Idx(graph_, i));
      place = graph_.Make(Op::INDEX, {pointer->src(0), index});
    } else if (pointer->op() == Op::INDEX) {
      place = graph_.Make(Op::INDEX, {pointer->src(0), Lane(pointer->src(1), i)});
    } else {
      place = graph_.Make(Op::INDEX, {pointer, Idx(graph_, i)});
    }
    return reads_ == Reads::kNamed ? place : graph_.Make(Op::AFTER, {place, access->src(0)});
  }

  // The first of the places that an access to neighbours goes to; null for others.
  static UOp* FirstOf(const UOp* pointer) {
    if (pointer->op() == Op::SHRINK)
      return pointer->src(1)->op() == Op::STACK ? pointer->src(1)->src(0) : pointer->src(1);
    if (pointer->op() != Op::INDEX || pointer->src().size() != 2 || pointer->src(1)->op() != Op::STACK) return nullptr;
    const auto lanes = pointer->src(1)->src();
    if (lanes[0]->dtype() != kIndexType || !lanes[0]->shape().empty()) return nullptr;
    const LinearForm first = ToLinear(lanes[0]);
    for (size_t i = 1; i < lanes.size(); ++i) {
      const LinearForm lane = ToLinear(lanes[i]);
      const bool next =
          static_cast<uint64_t>(lane.constant) == static_cast<uint64_t>(first.constant) + i &&
          std::equal(lane.terms.begin(), lane.terms.end(), first.terms.begin(), first.terms.end(),
                     [](const auto& a, const auto& b) { return a.node == b.node && a.coefficient == b.coefficient; });
      if (!next) return nullptr;
    }
    return lanes[0];
  }

  bool IsVectorAccess(const UOp* uop) const {
    const int64_t n = uop->src(0)->shape()[0];
    const DType dtype = uop->src(0)->dtype();
    const bool known = dtype == DType::kInt32 || dtype == DType::kUint32 || dtype == DType::kFloat32;
    if (uop->op() == Op::ATOMICADD || !known || (n != 2 && n != 4) || dialect_.vector_type.empty()) return false;
    if (uop->src().size() > 2 && !uop->src(2)->shape().empty()) return false;
    const UOp* pointer = uop->src(0);
    while (pointer->op() == Op::AFTER) pointer = pointer->src(0);
    if (pointer->addrspace() != AddrSpace::kGlobal) return false;
    const UOp* first = FirstOf(pointer);
    return first != nullptr && Divides(n, first);
  }

  // By a pointer to neighbours; the value, or alternative, as a vector too.
  UOp* InVectors(UOp* uop) {
    std::vector<UOp*> src(uop->src().begin(), uop->src().end());
    if (src[0]->op() == Op::INDEX) {
      UOp* lanes = ConstInt(graph_, DType::kWeakint, src[0]->shape()[0]);
      src[0] = graph_.Make(Op::SHRINK, {src[0]->src(0), FirstOf(src[0]), lanes});
    }
    if (src.size() > 1 && src[1]->shape().empty())
      src[1] = graph_.Make(Op::STACK, std::vector<UOp*>(uop->src(0)->shape()[0], src[1]));
    return graph_.Make(uop->op(), src, uop->arg());
  }

  // -- Bits

  absl::StatusOr<UOp*> BitcastLanes(UOp* uop) {
    UOp* value = uop->src(0);
    if (PointedStorage(value) != nullptr) return Unsupported("BITCAST of storage");
    if (uop->shape().empty() && value->shape().empty()) return uop;
    if (uop->shape().size() > 1 || value->shape().size() > 1) return Unsupported("BITCAST of several axes");
    const int64_t from = NumElements(value->shape()), to = NumElements(uop->shape());
    std::vector<UOp*> lanes;
    for (int64_t i = 0; i < to; ++i) {
      if (from == to) {
        lanes.push_back(Bitcast(graph_, Lane(value, i), uop->dtype()));
        continue;
      }
      // Little-endian: lane 0 of the narrow ones is the low part of the wide one.
      const DType narrow = UnsignedOfSize(ItemSize(from > to ? value->dtype() : uop->dtype()));
      const DType wide = UnsignedOfSize(ItemSize(from > to ? uop->dtype() : value->dtype()));
      UOp* bits = nullptr;
      if (from > to) {
        for (int64_t k = 0; k < from / to; ++k) {
          UOp* part = Cast(graph_, Bitcast(graph_, Lane(value, i * (from / to) + k), narrow), wide);
          if (k > 0) part = graph_.Make(Op::SHL, {part, ConstInt(graph_, wide, k * Bits(narrow))});
          bits = bits == nullptr ? part : graph_.Make(Op::OR, {bits, part});
        }
      } else {
        UOp* whole = Bitcast(graph_, Lane(value, i / (to / from)), wide);
        bits =
            Cast(graph_, graph_.Make(Op::SHR, {whole, ConstInt(graph_, wide, i % (to / from) * Bits(narrow))}), narrow);
      }
      lanes.push_back(Bitcast(graph_, bits, uop->dtype()));
    }
    return uop->shape().empty() ? lanes[0] : graph_.Make(Op::STACK, lanes);
  }

  // -- Matrices held by one item, row by row

  absl::StatusOr<UOp*> WriteOut(UOp* uop) {
    const WmmaArg& wmma = uop->arg_as<WmmaArg>();
    if (wmma.threads != 1) return Unsupported(absl::StrCat("a WMMA by ", wmma.threads, " items in ", dialect_.name));
    const auto holds = [](const UOp* x, int64_t n) { return x->shape().size() == 1 && x->shape()[0] == n; };
    if (wmma.m <= 0 || wmma.n <= 0 || wmma.k <= 0 || wmma.m > kMaxProducts || wmma.n > kMaxProducts ||
        wmma.k > kMaxProducts || wmma.m * wmma.n > kMaxProducts || wmma.m * wmma.n * wmma.k > kMaxProducts)
      return Unsupported("a WMMA as large as this");
    if (!holds(uop->src(0), wmma.m * wmma.k) || !holds(uop->src(1), wmma.k * wmma.n) ||
        !holds(uop->src(2), wmma.m * wmma.n))
      return MakeError(v1::SHAPE_MISMATCH, "WMMA's operands must hold m*k, k*n and m*n lanes");
    std::vector<UOp*> lanes;
    for (int64_t i = 0; i < wmma.m; ++i) {
      for (int64_t j = 0; j < wmma.n; ++j) {
        UOp* sum = Lane(uop->src(2), i * wmma.n + j);
        for (int64_t l = 0; l < wmma.k; ++l) {
          UOp* a = Cast(graph_, Lane(uop->src(0), i * wmma.k + l), sum->dtype());
          UOp* b = Cast(graph_, Lane(uop->src(1), l * wmma.n + j), sum->dtype());
          sum = Add(graph_, sum, Mul(graph_, a, b));
        }
        lanes.push_back(sum);
      }
    }
    return graph_.Make(Op::STACK, lanes);
  }

  Graph& graph_;
  const Dialect& dialect_;
  const Reads reads_;
};

}  // namespace

NodeRule ScalarizeRule(Graph& graph, const Dialect& dialect, Reads reads) {
  auto scalarizer = std::make_shared<Scalarizer>(graph, dialect, reads);
  return [scalarizer](UOp* uop) { return scalarizer->Rule(uop); };
}

absl::StatusOr<UOp*> Scalarize(Graph& graph, UOp* linear, const Dialect& dialect) {
  return RewriteList(graph, linear, ScalarizeRule(graph, dialect, Reads::kInOrder));
}

}  // namespace kiln::compiler
