#include "compiler/opt/cpu/heuristic.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "compiler/kernel/ranges.h"
#include "compiler/kernel/work.h"
#include "compiler/opt/cpu/matmul.h"
#include "compiler/opt/cpu/reduction.h"
#include "compiler/opt/cpu/transpose.h"

namespace kiln::compiler {
namespace {

// How one LOAD or STORE moves along each axis.
struct Access {
  bool store = false;
  bool reduced = false;  // a LOAD inside a REDUCE
  std::vector<std::optional<int64_t>> strides;
};

struct Survey {
  std::vector<UOp*> axes;
  size_t outputs = 0;  // axes below this are output loops
  std::vector<Access> accesses;
  int widest = 1;     // bytes of the widest value that is stored or computed
  int narrowest = 8;  // of one that is read or stored
  size_t work = 0;    // of elementwise nodes
  bool reduces = false;
  bool collides = false;  // two iterations may store to one place: the later one must win, in every run
};

Survey SurveyOf(UOp* sink) {
  Survey survey;
  survey.axes = AxesOf(sink);
  survey.outputs = OutputRanges(sink).size();
  const std::vector<UOp*> order = Toposort(sink);
  absl::flat_hash_set<UOp*> reduced;
  for (UOp* uop : order) {
    if (uop->op() != Op::REDUCE) continue;
    survey.reduces = true;
    for (UOp* below : Toposort(uop->src(0))) reduced.insert(below);
  }
  for (UOp* uop : order) {
    const bool load = uop->op() == Op::LOAD, store = uop->op() == Op::STORE;
    if (load || store) {
      Access access;
      access.store = store;
      access.reduced = load && reduced.contains(uop);
      UOp* place = uop->src(0)->src(1);
      for (UOp* axis : survey.axes) access.strides.push_back(StrideIn(place, axis));
      survey.collides |= store && !CountsApart(place, absl::MakeSpan(survey.axes).first(survey.outputs));
      survey.narrowest = std::min(survey.narrowest, ItemSize(load ? uop->dtype() : uop->src(1)->dtype()));
      survey.accesses.push_back(std::move(access));
    }
    if (load || (IsElementwise(uop->op()) && uop->dtype() != kIndexType)) {
      const int bytes = IsNarrowFloat(uop->dtype()) ? 4 : ItemSize(uop->dtype());
      survey.widest = std::max(survey.widest, bytes);
      survey.work += static_cast<size_t>(WorkOf(uop));
    }
  }
  return survey;
}

// 0 where it depends on variables.
int64_t SizeOf(const Survey& survey, size_t axis) {
  const UOp* bound = survey.axes[axis]->src(0);
  return bound->IsConst() ? bound->const_int() : 0;
}

// Whether iterations of an output axis store to one place: as lanes they would
// collide.
bool StoresToOnePlace(const Survey& survey, size_t axis) {
  return axis < survey.outputs && std::any_of(
                                      survey.accesses.begin(), survey.accesses.end(),
                                      [axis](const Access& a) { return a.store && a.strides[axis] == 0; });
}

// How badly memory is walked if lanes run along `axis`: 0 if every access is
// contiguous or the same in all lanes.
int LaneCost(const Survey& survey, size_t axis) {
  int cost = 0;
  for (const Access& access : survey.accesses) {
    const std::optional<int64_t>& stride = access.strides[axis];
    if (stride.has_value() && (*stride == 1 || *stride == 0)) continue;
    cost += access.store ? 4 : stride.has_value() ? 1 : 3;
  }
  return cost;
}

bool WalksContiguously(const Survey& survey, size_t axis) {
  return std::any_of(survey.accesses.begin(), survey.accesses.end(),
                     [axis](const Access& a) { return a.strides[axis] == 1; });
}

// How much a tile of `axis` saves when lanes run along `lane`: it reads a load
// that is the same all along the axis once. Whole vectors count more than
// single values.
int ReuseAlong(const Survey& survey, size_t axis, size_t lane) {
  int reuse = 0;
  for (const Access& access : survey.accesses) {
    if (access.reduced && access.strides[axis] == 0) reuse += access.strides[lane] == 1 ? 2 : 1;
  }
  return reuse;
}

// Whether its size depends on variables, fills half a vector in some runs, and masked vectors are cheap: every access
// is contiguous or the same in all lanes, of at least the four bytes that all CPUs with vectors have masks for.
bool MayFillLanes(const Survey& survey, size_t axis, int64_t lanes) {
  const UOp* size = survey.axes[axis]->src(0);
  return !size->IsConst() && 2 * size->bounds().max >= lanes && survey.narrowest >= 4 && LaneCost(survey, axis) == 0;
}

// The axis along which lanes walk memory best, among those that `may` have lanes.
std::optional<size_t> BestLaneAxis(const Survey& survey, absl::FunctionRef<bool(size_t axis)> may) {
  std::optional<size_t> best;
  int best_cost = 0;
  for (size_t axis = 0; axis < survey.axes.size(); ++axis) {
    if (!may(axis) || !WalksContiguously(survey, axis) || StoresToOnePlace(survey, axis)) continue;
    int cost = 2 * LaneCost(survey, axis);
    if (axis >= survey.outputs) cost += 1;  // lanes of a reduction must be reduced at the end
    if (const int64_t size = SizeOf(survey, axis); size > 0 && size < 4) cost += 2;
    if (!best.has_value() || cost < best_cost || (cost == best_cost && axis < survey.outputs)) {
      best = axis;
      best_cost = cost;
    }
  }
  // Mostly gathers: scalar code is as fast, and smaller.
  if (best.has_value() && best_cost > static_cast<int>(survey.accesses.size()) + 1) return std::nullopt;
  return best;
}

class Chooser {
 public:
  Chooser(UOp* sink, const v1::Target& target) : survey_(SurveyOf(sink)) {
    const auto& tuning = target.tuning();
    lanes_ = std::max<int64_t>(1, (tuning.vector_bytes() ? tuning.vector_bytes() : 16) / survey_.widest);
    registers_ = tuning.vector_registers() ? tuning.vector_registers() : 16;
  }

  std::vector<OptOp> Run() {
    const auto is_number = [this](size_t axis) { return SizeOf(survey_, axis) >= 2; };
    const auto may_vary = [this](size_t axis) { return MayFillLanes(survey_, axis, lanes_); };
    if (const std::optional<size_t> lane = BestLaneAxis(survey_, is_number)) {
      // Tiles take the lower dimensions, lanes the last one.
      if (survey_.reduces) Tile(*lane);
      Vectorize(*lane);
    } else if (const std::optional<size_t> varies = BestLaneAxis(survey_, may_vary)) {
      VectorizeVarying(*varies);
    }
    if (survey_.outputs > 0 && !survey_.collides) opts_.push_back({OptOp::kThread, 0});
    return opts_;
  }

 private:
  // Registers that one row of the tile needs for its lanes.
  int64_t VectorsPerRow(size_t lane) const {
    const int64_t size = SizeOf(survey_, lane);
    if (lane >= survey_.outputs) return 1;
    for (int64_t vectors : {4, 2}) {
      if (size % (vectors * lanes_) == 0) return vectors;
    }
    return 1;
  }

  void Tile(size_t lane) {
    const int64_t budget = std::max<int64_t>(1, (registers_ - 8) / VectorsPerRow(lane));
    const int64_t most = std::min<int64_t>(lane < survey_.outputs ? 8 : 4, budget);
    int best_reuse = 0;
    OptOp best{OptOp::kSplit, 0, 1, AxisType::kUpcast, 0};
    for (size_t axis = survey_.outputs; axis-- > 0;) {
      const int64_t rows = LargestDivisor(SizeOf(survey_, axis), most);
      const int reuse = ReuseAlong(survey_, axis, lane);
      if (axis == lane || rows < 2 || reuse <= best_reuse || StoresToOnePlace(survey_, axis)) continue;
      best_reuse = reuse;
      best.axis = static_cast<int>(axis);
      best.amount = rows;
    }
    if (best_reuse == 0) return;
    opts_.push_back(best);
    dimension_ = 1;
  }

  void Vectorize(size_t lane) {
    if (lane < survey_.outputs) {
      Split(lane, survey_.reduces ? VectorsPerRow(lane) : ElementwiseVectors(lane), AxisType::kUpcast);
      return;
    }
    Split(lane, 1, AxisType::kUnroll);
  }

  // The last vector is masked, whichever it is in a run.
  void VectorizeVarying(size_t lane) {
    const AxisType type = lane < survey_.outputs ? AxisType::kUpcast : AxisType::kUnroll;
    opts_.push_back({OptOp::kPadTo, static_cast<int>(lane), lanes_});
    opts_.push_back({OptOp::kSplit, static_cast<int>(lane), lanes_, type, dimension_});
  }

  // Several vectors at once hide latency where a kernel does little.
  int64_t ElementwiseVectors(size_t lane) const {
    const int64_t size = SizeOf(survey_, lane);
    for (int64_t vectors : {4, 2}) {
      if (static_cast<int64_t>(survey_.work) * vectors <= 48 && size % (vectors * lanes_) == 0 &&
          size >= 4 * vectors * lanes_)
        return vectors;
    }
    return 1;
  }

  void Split(size_t axis, int64_t vectors, AxisType type) {
    const int64_t size = SizeOf(survey_, axis);
    int64_t amount = std::min(size, lanes_ * vectors);
    if (size % amount != 0) {
      // A divisor close to full width beats masks.
      const int64_t divisor = LargestDivisor(size, lanes_);
      if (divisor * 2 > lanes_) {
        amount = divisor;
      } else {
        opts_.push_back({OptOp::kPadTo, static_cast<int>(axis), amount});
      }
    }
    opts_.push_back({OptOp::kSplit, static_cast<int>(axis), amount, type, dimension_});
  }

  const Survey survey_;
  int64_t lanes_;
  int64_t registers_;
  int64_t dimension_ = 0;
  std::vector<OptOp> opts_;
};

}  // namespace

std::vector<OptOp> ChooseOpts(UOp* sink, const v1::Target& target) {
  if (const auto opts = ChooseMatmulOpts(sink, target)) return *opts;
  for (const auto choose : {ChooseReductionOpts, ChooseTransposeOpts}) {
    if (std::optional<std::vector<OptOp>> opts = choose(sink, target)) return *std::move(opts);
  }
  return Chooser(sink, target).Run();
}

}  // namespace kiln::compiler
