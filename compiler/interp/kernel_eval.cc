#include "compiler/interp/kernel_eval.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/interp/eval.h"
#include "compiler/interp/lanes.h"
#include "compiler/interp/scalar.h"
#include "compiler/interp/tensor.h"
#include "compiler/interp/word_terms.h"
#include "compiler/ir/build.h"
#include "compiler/structure/core_product.h"
#include "compiler/structure/group_product.h"

namespace kiln::compiler {
namespace {

absl::Status TooManySteps() { return absl::ResourceExhaustedError("this kernel takes too many steps to evaluate"); }

class Evaluator {
 public:
  Evaluator(KernelMemory& memory, int64_t max_steps) : memory_(memory), steps_left_(max_steps) {}

  absl::Status RunSink(UOp* sink) {
    for (UOp* body : sink->src()) {
      const bool closes = body->op() == Op::END;
      UOp* store = closes ? body->src(0) : body;
      const auto ranges = closes ? body->src().subspan(1) : absl::Span<UOp* const>();
      KILN_RETURN_IF_ERROR(Loop(body, ranges, store, [] { return absl::OkStatus(); }));
    }
    return absl::OkStatus();
  }

  absl::Status RunLinear(UOp* linear) {
    in_order_ = true;
    const auto list = linear->src();
    absl::flat_hash_map<UOp*, size_t> at;
    for (size_t i = 0; i < list.size(); ++i) at[list[i]] = i;
    for (size_t i = 0; i < list.size(); ++i) {
      UOp* uop = list[i];
      if (uop->op() == Op::RANGE) {
        values_[uop] = {0};
      } else if (uop->op() == Op::END) {
        const auto ranges = uop->src().subspan(1);
        for (size_t k = ranges.size(); k-- > 0;) {
          if (++values_[ranges[k]][0] < static_cast<uint64_t>(ranges[k]->src(0)->const_int())) {
            i = at.at(ranges[k]);
            break;
          }
        }
      } else {
        KILN_RETURN_IF_ERROR(Eval(uop));
      }
    }
    return absl::OkStatus();
  }

 private:
  // What a loop evaluates: nodes that do not change within it, and those that do.
  struct Body {
    std::vector<UOp*> outside, inside;
  };

  // The nodes under `root` in order, without what inner REDUCEs do for themselves.
  static void Collect(UOp* root, absl::Span<UOp* const> ranges, Body& body) {
    absl::flat_hash_set<UOp*> changing(ranges.begin(), ranges.end());
    absl::flat_hash_set<UOp*> needed = {root};
    const std::vector<UOp*> order = Toposort(root);
    for (size_t i = order.size(); i-- > 0;) {
      if (!needed.contains(order[i])) continue;
      const bool loops = (order[i]->op() == Op::REDUCE || order[i]->op() == Op::END) && order[i]->src().size() > 1;
      if (!loops) needed.insert(order[i]->src().begin(), order[i]->src().end());
    }
    for (UOp* uop : order) {
      for (UOp* source : uop->src()) {
        if (changing.contains(source)) changing.insert(uop);
      }
      if (needed.contains(uop) && uop->op() != Op::RANGE)
        (changing.contains(uop) ? body.inside : body.outside).push_back(uop);
    }
  }

  // Evaluates `root` in every iteration of `ranges`, and calls `iteration` after each.
  template <typename Iteration>
  absl::Status Loop(UOp* closer, absl::Span<UOp* const> ranges, UOp* root, Iteration iteration) {
    const auto [found, is_new] = bodies_.try_emplace(closer);
    if (is_new) Collect(root, ranges, found->second);
    const Body body = found->second;  // the map may move while inner loops run
    for (UOp* range : ranges) values_[range] = {0};
    for (UOp* uop : body.outside) KILN_RETURN_IF_ERROR(Eval(uop));
    while (true) {
      for (UOp* uop : body.inside) KILN_RETURN_IF_ERROR(Eval(uop));
      KILN_RETURN_IF_ERROR(iteration());
      size_t k = ranges.size();
      while (k > 0 && ++values_[ranges[k - 1]][0] == static_cast<uint64_t>(ranges[k - 1]->src(0)->const_int()))
        values_[ranges[--k]] = {0};
      if (k == 0) return absl::OkStatus();
    }
  }

  absl::Status Eval(UOp* uop) {
    if (--steps_left_ < 0) return TooManySteps();
    if (IsElementwise(uop->op())) return EvalElementwise(uop);
    switch (As<KernelOp>(uop->op())) {
      case KernelOp::CONST: values_[uop] = {uop->arg_as<ConstArg>().bits}; return absl::OkStatus();
      case KernelOp::PARAM:
      case KernelOp::INDEX:
      case KernelOp::AFTER: return absl::OkStatus();  // places, and order: read by the accesses
      case KernelOp::END:                             // in a graph, of the loops that fill a local buffer
        if (in_order_) return absl::OkStatus();
        return Loop(uop, uop->src().subspan(1), uop->src(0), [] { return absl::OkStatus(); });
      case KernelOp::BUFFER: registers_[uop].assign(NumElements(uop->shape()), 0); return absl::OkStatus();
      case KernelOp::BITCAST:
        if (ItemSize(uop->dtype()) == ItemSize(uop->src(0)->dtype())) return EvalElementwise(uop);
        return SetWords(uop);
      case KernelOp::WMMA:
        if (const auto product = GroupProductOf(uop)) return EvalGroupProduct(uop, *product);
        if (const auto product = CoreProductOf(uop)) return EvalCoreProduct(uop, *product);
        return EvalDots(uop);
      case KernelOp::STACK: {
        Lanes lanes;
        for (UOp* source : uop->src()) {
          const Lanes& part = values_[source];
          lanes.insert(lanes.end(), part.begin(), part.end());
        }
        values_[uop] = std::move(lanes);
        return absl::OkStatus();
      }
      case KernelOp::RESHAPE:
      case KernelOp::SHRINK:
      case KernelOp::PAD:
      case KernelOp::PERMUTE:
      case KernelOp::EXPAND: values_[uop] = MovedLanes(uop, values_[uop->src(0)]); return absl::OkStatus();
      case KernelOp::REDUCE: return EvalReduce(uop);
      case KernelOp::LOAD: return EvalLoad(uop);
      case KernelOp::STORE: return EvalStore(uop);
      // No kernel has them; RANGEs are opened by what closes them.
      case KernelOp::FLIP:
      case KernelOp::REPLICATED:
      case KernelOp::RANGE:
      case KernelOp::GROUP:
      case KernelOp::SINK:
      case KernelOp::LINEAR:
      case KernelOp::SPECIAL: break;
    }
    return absl::UnimplementedError(absl::StrCat(Name(uop->op()), " in a kernel"));
  }

  absl::Status EvalElementwise(UOp* uop) {
    const size_t count = uop->src().size();
    std::vector<std::vector<int64_t>> spread(count);
    if (!uop->shape().empty()) {
      for (size_t k = 0; k < count; ++k) spread[k] = Spread(uop->src(k)->shape(), uop->shape());
    }
    const DType from = uop->src(uop->op() == Op::WHERE ? 1 : 0)->dtype();
    Lanes lanes(NumElements(uop->shape()));
    uint64_t operands[3];
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      for (size_t k = 0; k < count; ++k)
        operands[k] = values_[uop->src(k)][spread[k].empty() ? 0 : static_cast<size_t>(spread[k][lane])];
      lanes[lane] = EvalScalar(uop->op(), from, uop->dtype(), absl::MakeConstSpan(operands, count));
    }
    values_[uop] = std::move(lanes);
    return absl::OkStatus();
  }

  absl::Status SetWords(UOp* uop) {
    const auto words = WordsOf(values_[uop->src(0)], uop->src(0)->dtype(), uop->dtype());
    values_[uop].assign(words.begin(), words.end());
    return absl::OkStatus();
  }

  absl::Status EvalDots(UOp* uop) {
    Lanes lanes;
    std::vector<int64_t> spread[3];
    for (size_t k = 0; k < 3; ++k) spread[k] = Spread(uop->src(k)->shape(), uop->shape());
    for (int64_t lane = 0; lane < NumElements(uop->shape()); ++lane) {
      const auto at = [&](size_t k) { return values_[uop->src(k)][static_cast<size_t>(spread[k][lane])]; };
      lanes.push_back(IsFloat(uop->dtype()) ? DotOfBfloats(at(0), at(1), at(2))
                                            : WrapInt(uop->dtype(), DotOfBytes(at(0), at(1), at(2))));
    }
    values_[uop] = std::move(lanes);
    return absl::OkStatus();
  }

  // The elements of a tile (structure/group_product.h), each by itself.
  absl::Status EvalGroupProduct(UOp* uop, const GroupProduct& product) {
    const DType sum_type = uop->dtype();
    KILN_ASSIGN_OR_RETURN(const Place a, PlaceOf(uop->src(0)));
    KILN_ASSIGN_OR_RETURN(const Place b, PlaceOf(uop->src(1)));
    const auto factor = [&](const GroupProduct::Side& side, const Place& place, int64_t at,
                            int64_t k) -> absl::StatusOr<uint64_t> {
      const auto value = [&](const UOp* node) { return static_cast<int64_t>(values_.at(node)[0]); };
      const int64_t row = value(side.first) + at;
      if (row >= side.size) return 0;
      for (const GroupProduct::Window& window : side.windows) {
        const int64_t number =
            value(window.offset) + at * window.step + k * window.step_k + JumpsTo(window.jumps, row, k);
        if (number < 0 || number >= window.size) return 0;
      }
      const int64_t cell = value(side.offset) + at * side.step + k * side.step_k + JumpsTo(side.jumps, row, k);
      if (cell < 0 || cell >= static_cast<int64_t>(place.cells->size()))
        return absl::OutOfRangeError(absl::StrCat("a factor, element ", cell, " of ", place.cells->size()));
      return EvalScalar(Op::CAST, product.in, sum_type, {(*place.cells)[cell]});
    };
    Lanes lanes;
    for (const uint64_t number : Lanes(values_[uop->src(2)])) {
      const auto element = static_cast<int64_t>(EvalScalar(Op::CAST, sum_type, kIndexType, {number}));
      uint64_t sum = IdentityBits(Op::ADD, sum_type);
      for (int64_t k = 0; k < product.reduced; ++k) {
        if (--steps_left_ < 0) return TooManySteps();
        KILN_ASSIGN_OR_RETURN(const uint64_t x, factor(product.a, a, element / product.tile->n, k));
        KILN_ASSIGN_OR_RETURN(const uint64_t y, factor(product.b, b, element % product.tile->n, k));
        sum = EvalScalar(Op::ADD, sum_type, sum_type, {sum, EvalScalar(Op::MUL, sum_type, sum_type, {x, y})});
      }
      lanes.push_back(sum);
    }
    values_[uop] = std::move(lanes);
    return absl::OkStatus();
  }

  // Row by column (structure/core_product.h); `term` is the t-th of word w from `place` on.
  absl::Status EvalCoreProduct(UOp* uop, const CoreProduct& product) {
    const DType sum_type = uop->dtype();
    const auto term = [&](const CoreProduct::Side& side, const UOp* source, int64_t place, int64_t w,
                          int64_t t) -> absl::StatusOr<uint64_t> {
      KILN_ASSIGN_OR_RETURN(const Place storage, PlaceOf(source->src(0)));
      const bool words = side.storage->dtype() == DType::kUint32;
      const int64_t cell = place + (words ? w : w * product.terms() + t);
      if (cell < 0 || cell >= static_cast<int64_t>(storage.cells->size()))
        return absl::OutOfRangeError(absl::StrCat("a factor, element ", cell, " of ", storage.cells->size()));
      return TermOfWord((*storage.cells)[cell], words ? t : 0, side.dtype, sum_type);
    };
    const auto first = [&](const CoreProduct::Side& side) { return static_cast<int64_t>(values_.at(side.first)[0]); };
    Lanes sums = values_[uop->src(2)];
    if ((steps_left_ -= product.rows * product.columns * product.words) < 0) return TooManySteps();
    for (int64_t at = 0; at < product.rows * product.columns; ++at) {
      const int64_t a = first(product.a) + at / product.columns * product.a.step;
      for (int64_t i = 0; i < product.words * product.terms(); ++i) {
        const int64_t w = i / product.terms(), t = i % product.terms();
        const int64_t b = first(product.b) + w * product.b.step + at % product.columns;
        KILN_ASSIGN_OR_RETURN(const uint64_t x, term(product.a, uop->src(0), a, w, t));
        KILN_ASSIGN_OR_RETURN(const uint64_t y, term(product.b, uop->src(1), b, 0, t));
        sums[at] = EvalScalar(Op::ADD, sum_type, sum_type, {sums[at], EvalScalar(Op::MUL, sum_type, sum_type, {x, y})});
      }
    }
    values_[uop] = std::move(sums);
    return absl::OkStatus();
  }

  // Over loops, then over lanes; either may be absent.
  absl::Status EvalReduce(UOp* uop) {
    const ReduceArg& reduce = uop->arg_as<ReduceArg>();
    UOp* x = uop->src(0);
    const uint64_t start = IdentityBits(reduce.op, uop->dtype());
    auto reduce_into = [&](uint64_t& into, uint64_t value) {
      into = EvalScalar(reduce.op, uop->dtype(), uop->dtype(), {into, value});
    };
    Lanes lanes(NumElements(x->shape()), start);
    if (uop->src().size() > 1) {
      KILN_RETURN_IF_ERROR(Loop(uop, uop->src().subspan(1), x, [&] {
        for (size_t i = 0; i < lanes.size(); ++i) reduce_into(lanes[i], values_[x][i]);
        return absl::OkStatus();
      }));
    } else {
      lanes = values_[x];
    }
    if (!reduce.axes.empty()) {
      Lanes reduced(NumElements(uop->shape()), start);
      const std::vector<int64_t> target = Spread(uop->shape(), x->shape());
      for (size_t i = 0; i < lanes.size(); ++i) reduce_into(reduced[target[i]], lanes[i]);
      lanes = std::move(reduced);
    }
    values_[uop] = std::move(lanes);
    return absl::OkStatus();
  }

  uint64_t IdentityBits(Op reduce_op, DType dtype) {
    return Identity(scratch_, reduce_op, dtype)->arg_as<ConstArg>().bits;
  }

  // -- Memory

  struct Place {
    std::vector<uint64_t>* cells;
    UOp* index;  // null for all of a register buffer
  };

  absl::StatusOr<Place> PlaceOf(UOp* uop) {
    UOp* index = nullptr;
    while (uop->op() == Op::INDEX || uop->op() == Op::AFTER) {
      if (uop->op() == Op::INDEX) index = uop->src(1);
      uop = uop->src(0);
    }
    if (uop->op() == Op::PARAM) {
      const auto found = memory_.find(uop->arg_as<BufferArg>().slot);
      if (found != memory_.end()) return Place{&found->second, index};
    }
    const auto found = registers_.find(uop);
    if (found == registers_.end()) return absl::UnimplementedError("an access to no buffer of the kernel");
    return Place{&found->second, index};
  }

  // Runs `access(lane, cell)` for each lane whose gate holds; the cell is inside.
  template <typename Access>
  absl::Status ForEachLane(UOp* uop, const Shape& shape, Access access) {
    KILN_ASSIGN_OR_RETURN(const Place place, PlaceOf(uop->src(0)));
    UOp* gate = uop->src().size() > 2 ? uop->src(2) : nullptr;
    const std::vector<int64_t> gates = gate == nullptr ? std::vector<int64_t>() : Spread(gate->shape(), shape);
    const std::vector<int64_t> places =
        place.index == nullptr ? std::vector<int64_t>() : Spread(place.index->shape(), shape);
    for (int64_t lane = 0; lane < NumElements(shape); ++lane) {
      if (gate != nullptr && values_[gate][gates[lane]] == 0) continue;
      const auto cell = place.index == nullptr ? lane : static_cast<int64_t>(values_[place.index][places[lane]]);
      if (cell < 0 || cell >= static_cast<int64_t>(place.cells->size()))
        return absl::OutOfRangeError(
            absl::StrCat(Name(uop->op()), " of element ", cell, " of a buffer of ", place.cells->size()));
      access(lane, (*place.cells)[cell]);
    }
    return absl::OkStatus();
  }

  absl::Status EvalLoad(UOp* uop) {
    Lanes lanes(NumElements(uop->shape()));
    if (uop->src().size() > 1) {
      const std::vector<int64_t> other = Spread(uop->src(1)->shape(), uop->shape());
      for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = values_[uop->src(1)][other[i]];
    }
    KILN_RETURN_IF_ERROR(ForEachLane(uop, uop->shape(), [&](int64_t lane, uint64_t& cell) { lanes[lane] = cell; }));
    values_[uop] = std::move(lanes);
    return absl::OkStatus();
  }

  absl::Status EvalStore(UOp* uop) {
    const Shape& shape = uop->src(0)->shape();
    const std::vector<int64_t> from = Spread(uop->src(1)->shape(), shape);
    const Lanes value = values_[uop->src(1)];
    return ForEachLane(uop, shape, [&](int64_t lane, uint64_t& cell) { cell = value[from[lane]]; });
  }

  KernelMemory& memory_;
  int64_t steps_left_;
  bool in_order_ = false;  // a LINEAR: its list says what runs when
  Graph scratch_;
  absl::flat_hash_map<UOp*, Lanes> values_;
  absl::flat_hash_map<UOp*, std::vector<uint64_t>> registers_;
  absl::flat_hash_map<UOp*, Body> bodies_;  // by the END or REDUCE
};

}  // namespace

absl::Status EvalKernel(UOp* kernel, KernelMemory& memory, int64_t max_steps) {
  Evaluator evaluator(memory, max_steps);
  return kernel->op() == Op::LINEAR ? evaluator.RunLinear(kernel) : evaluator.RunSink(kernel);
}

}  // namespace kiln::compiler
