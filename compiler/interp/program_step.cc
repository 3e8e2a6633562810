#include <string>

#include "base/check.h"
#include "compiler/interp/program_state.h"
#include "compiler/interp/scalar.h"
#include "compiler/interp/tensor.h"
#include "compiler/spec/program_spec.h"
#include "compiler/spec/wmma_layout.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

__int128 IntOf(DType dtype, uint64_t bits) {
  return IsSigned(dtype) ? __int128{static_cast<int64_t>(bits)} : __int128{bits};
}

class Step {
 public:
  Step(ProgramState& state, size_t number)
      : state_(state), step_(state.steps[number]), uop_(*step_.uop), cells_(state.values[number]) {}

  void Run() {
    if (uop_.op() == Op::WMMA && uop_.arg_as<WmmaArg>().threads > 1) return MultiplyByWarps();
    for (int64_t item = 0; item < state_.items; ++item) {
      if (state_.active[item]) RunItem(item);
    }
  }

 private:
  uint64_t In(size_t k, int64_t item, int64_t lane) const { return state_.Value(step_, k, item, lane); }
  uint64_t& Out(int64_t item, int64_t lane) { return cells_[item * step_.lanes + lane]; }
  DType From(size_t k) const { return uop_.src(k)->dtype(); }

  void RunItem(int64_t item) {
    if (IsElementwise(uop_.op())) return Compute(item);
    switch (As<ProgramOp>(uop_.op())) {
      case ProgramOp::SPECIAL: Out(item, 0) = Coordinate(item); break;
      case ProgramOp::INDEX:
      case ProgramOp::SHRINK: IsMemory(&uop_) ? Point(item) : void(Out(item, 0) = In(0, item, LaneTaken())); break;
      case ProgramOp::AFTER: CopyValue(item); break;
      case ProgramOp::STACK:
        for (int64_t lane = 0; lane < step_.lanes; ++lane) Out(item, lane) = In(lane, item, 0);
        break;
      case ProgramOp::BITCAST: Reinterpret(item); break;
      case ProgramOp::LOAD: Load(item); break;
      case ProgramOp::STORE: Store(item); break;
      case ProgramOp::ATOMICADD: Store(item); break;
      case ProgramOp::WMMA: Multiply(item); break;
      // Nothing to be done by one item (program.cc does what all do together), or in no program.
      case ProgramOp::PARAM:
      case ProgramOp::BUFFER:
      case ProgramOp::CONST:
      case ProgramOp::PERMUTE:
      case ProgramOp::FLIP:
      case ProgramOp::RESHAPE:
      case ProgramOp::EXPAND:
      case ProgramOp::PAD:
      case ProgramOp::REPLICATED:
      case ProgramOp::REDUCE:
      case ProgramOp::RANGE:
      case ProgramOp::END:
      case ProgramOp::GROUP:
      case ProgramOp::SINK:
      case ProgramOp::LINEAR:
      case ProgramOp::BARRIER:
      case ProgramOp::IF:
      case ProgramOp::ENDIF:
      case ProgramOp::CUSTOM:
      case ProgramOp::CUSTOMI: break;
    }
  }

  void Compute(int64_t item) {
    const DType from = From(uop_.op() == Op::WHERE ? 1 : 0);
    uint64_t operands[3];
    for (int64_t lane = 0; lane < step_.lanes; ++lane) {
      for (size_t k = 0; k < uop_.src().size(); ++k) operands[k] = In(k, item, lane);
      Out(item, lane) = EvalScalar(uop_.op(), from, uop_.dtype(), absl::MakeConstSpan(operands, uop_.src().size()));
    }
  }

  uint64_t Coordinate(int64_t item) const {
    char kind;
    int axis;
    KILN_CHECK(ParseCoordinate(uop_.arg_as<TextArg>().text, kind, axis));
    if (kind != 'l') return static_cast<uint64_t>(state_.group[axis]);
    for (int i = 0; i < axis; ++i) item /= state_.group_items[i];
    return static_cast<uint64_t>(item % state_.group_items[axis]);
  }

  int64_t LaneTaken() const { return static_cast<int64_t>(uop_.src(1)->bounds().min); }

  // Each lane lies inside or nowhere.
  void Point(int64_t item) {
    const Shape& shape = uop_.src(0)->shape();
    const Shape strides = Strides(shape);
    for (int64_t lane = 0; lane < step_.lanes; ++lane) {
      __int128 place = 0;
      bool inside = true;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        __int128 at = IntOf(From(1 + axis), In(1 + axis, item, lane));
        if (uop_.op() == Op::SHRINK) at += lane;
        inside &= at >= 0 && at < shape[axis];
        if (inside) place += at * strides[axis];
      }
      Out(item, lane) = inside ? static_cast<uint64_t>(place) : kNowhere;
    }
  }

  void CopyValue(int64_t item) {
    if (step_.sources[0] == kNoListing) return;
    for (int64_t lane = 0; lane < step_.lanes; ++lane) Out(item, lane) = In(0, item, lane);
  }

  void Reinterpret(int64_t item) {
    const int from = ItemSize(From(0)), to = ItemSize(uop_.dtype());
    std::string bytes(static_cast<size_t>(state_.LanesOf(step_, 0) * from), '\0');
    for (int64_t lane = 0; lane < state_.LanesOf(step_, 0); ++lane)
      StoreElement(From(0), In(0, item, lane), bytes.data() + lane * from);
    for (int64_t lane = 0; lane < step_.lanes; ++lane)
      Out(item, lane) = LoadElement(uop_.dtype(), bytes.data() + lane * to);
  }

  uint64_t* Cell(int64_t item, uint64_t place) const {
    ProgramMemory& memory = state_.memory.at(StorageUnder(uop_.src(0)));
    const bool own = uop_.src(0)->addrspace() == AddrSpace::kReg;
    return &memory.cells[(own ? static_cast<uint64_t>(item * memory.elements) : 0) + place];
  }

  void Load(int64_t item) {
    const bool has_alt = uop_.src().size() > 1, gated = uop_.src().size() > 2;
    for (int64_t lane = 0; lane < step_.lanes; ++lane) {
      const uint64_t place = In(0, item, lane);
      const bool there = place != kNowhere && (!gated || In(2, item, lane) != 0);
      Out(item, lane) = there ? *Cell(item, place) : has_alt ? In(1, item, lane) : 0;
    }
  }

  void Store(int64_t item) {
    const bool gated = uop_.op() == Op::STORE && uop_.src().size() > 2;
    for (int64_t lane = 0; lane < state_.LanesOf(step_, 0); ++lane) {
      const uint64_t place = In(0, item, lane);
      if (place == kNowhere || (gated && In(2, item, lane) == 0)) continue;
      uint64_t& cell = *Cell(item, place);
      const uint64_t value = In(1, item, lane);
      cell = uop_.op() == Op::STORE ? value : EvalScalar(Op::ADD, From(1), From(1), {cell, value});
    }
  }

  // -- WMMA: products and sums in float32 at least, rounded once at the end.
  DType Inner() const {
    const DType out = uop_.dtype();
    return IsNarrowFloat(out) ? DType::kFloat32 : out;
  }
  uint64_t Widen(size_t k, uint64_t bits) const { return EvalScalar(Op::CAST, From(k), Inner(), {bits}); }
  uint64_t Reduce(uint64_t sum, uint64_t a, uint64_t b) const {
    return EvalScalar(Op::ADD, Inner(), Inner(), {sum, EvalScalar(Op::MUL, Inner(), Inner(), {a, b})});
  }
  uint64_t Round(uint64_t sum) const { return EvalScalar(Op::CAST, Inner(), uop_.dtype(), {sum}); }

  // Row-major operands, all in one item.
  void Multiply(int64_t item) {
    const WmmaArg& arg = uop_.arg_as<WmmaArg>();
    for (int64_t i = 0; i < arg.m; ++i) {
      for (int64_t j = 0; j < arg.n; ++j) {
        uint64_t sum = Widen(2, In(2, item, i * arg.n + j));
        for (int64_t l = 0; l < arg.k; ++l)
          sum = Reduce(sum, Widen(0, In(0, item, i * arg.k + l)), Widen(1, In(1, item, l * arg.n + j)));
        Out(item, i * arg.n + j) = Round(sum);
      }
    }
  }

  // Fragments in a wave's items, gathered and spread again (wmma_layout.h: where each
  // element is).
  void MultiplyByWarps() {
    const WmmaArg& arg = uop_.arg_as<WmmaArg>();
    const WmmaLayout layout = *LayoutOf(arg);
    for (int64_t first = 0; first < state_.items; first += arg.threads) {
      std::vector<uint64_t> a(arg.m * arg.k), b(arg.k * arg.n), c(arg.m * arg.n);
      const auto visit = [&](const Fragment& fragment, auto&& body) {
        for (int64_t lane = 0; lane < arg.threads; ++lane) {
          for (int64_t i = 0; i < fragment.elements; ++i) body(first + lane, i, fragment.At(lane, i));
        }
      };
      visit(layout.a,
            [&](int64_t item, int64_t i, Place p) { a[p.row * arg.k + p.column] = Widen(0, In(0, item, i)); });
      visit(layout.b,
            [&](int64_t item, int64_t i, Place p) { b[p.row * arg.n + p.column] = Widen(1, In(1, item, i)); });
      visit(layout.c,
            [&](int64_t item, int64_t i, Place p) { c[p.row * arg.n + p.column] = Widen(2, In(2, item, i)); });
      for (int64_t i = 0; i < arg.m; ++i) {
        for (int64_t j = 0; j < arg.n; ++j) {
          for (int64_t l = 0; l < arg.k; ++l)
            c[i * arg.n + j] = Reduce(c[i * arg.n + j], a[i * arg.k + l], b[l * arg.n + j]);
        }
      }
      visit(layout.c, [&](int64_t item, int64_t i, Place p) { Out(item, i) = Round(c[p.row * arg.n + p.column]); });
    }
  }

  ProgramState& state_;
  const ProgramStep& step_;
  const UOp& uop_;
  std::vector<uint64_t>& cells_;
};

}  // namespace

int64_t ProgramState::LanesOf(const ProgramStep& step, size_t k) const {
  return step.sources[k] == kNoListing ? 1 : steps[step.sources[k]].lanes;
}

uint64_t ProgramState::Value(const ProgramStep& step, size_t k, int64_t item, int64_t lane) const {
  if (step.sources[k] == kNoListing) {
    KILN_CHECK(step.uop->src(k)->IsConst());
    return step.uop->src(k)->arg_as<ConstArg>().bits;
  }
  const int64_t lanes = steps[step.sources[k]].lanes;
  return values[step.sources[k]][item * lanes + (lanes == 1 ? 0 : lane)];
}

void RunStep(ProgramState& state, size_t step) { Step(state, step).Run(); }

}  // namespace kiln::compiler
