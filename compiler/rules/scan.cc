#include "compiler/rules/scan.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/rules/facts.h"
#include "compiler/rules/linear.h"
#include "compiler/rules/loop_condition.h"

namespace kiln::compiler {
namespace {

// Larger bodies are no masked elements.
constexpr size_t kMaxNodes = 400;
// Loops whose bounds' sums are far from any limit.
constexpr int64_t kMaxIterations = int64_t{1} << 40;

// slope * i + constant
struct Line {
  int64_t slope = 0, constant = 0;
  int64_t At(int64_t i) const { return slope * i + constant; }
};

class Recogniser {
 public:
  Recogniser(Graph& graph, Rewriter& simplify, UOp* reduce, UOp* output)
      : graph_(graph),
        simplify_(simplify),
        reduce_op_(reduce->arg_as<ReduceArg>().op),
        value_(reduce->src(0)),
        reduced_loop_(reduce->src(1)),
        output_(output),
        iterations_(reduced_loop_->src(0)->const_int()),
        size_(output->src(0)->const_int()) {}

  std::optional<Scan> Run() {
    // By the number of the element: r itself, or r with i in it, which then is gone.
    for (const int64_t sign : {0, 1, -1}) {
      if (std::optional<Scan> scan = By(sign)) return scan;
    }
    return std::nullopt;
  }

 private:
  // With r = j - sign * i (+ size - 1 for the sign -1, so that no j is negative), only which j
  // are reduced may depend on i: those from `lows` to `highs`.
  std::optional<Scan> By(int64_t sign) {
    UOp* j = sign == 0 ? reduced_loop_
                       : graph_.Make(Op::RANGE, {Idx(graph_, iterations_ + size_ - 1)},
                                     RangeArg{graph_.NextId(), AxisType::kLoop});
    const Line shift = {-sign, sign < 0 ? 1 - size_ : 0};  // r = j + shift
    UOp* value = value_;
    if (sign != 0) value = simplify_.Rewrite(Substitute(value_, {{reduced_loop_, Plus(j, shift)}}, graph_));
    lows_ = {{-shift.slope, -shift.constant}};
    highs_ = {{-shift.slope, iterations_ - shift.constant}};
    if (!Window(value, j)) return std::nullopt;
    for (const bool upward : {true, false}) {
      const Line* moving = Tightest(upward ? highs_ : lows_, upward, true);
      const Line* fixed = Tightest(upward ? lows_ : highs_, !upward, false);
      if (moving == nullptr || fixed == nullptr) continue;
      const bool descending = (moving->slope > 0) != upward;
      const int64_t first = descending ? size_ - 1 : 0;
      const int64_t count = upward ? moving->At(first) - fixed->constant : fixed->constant - moving->At(first);
      if (count > 1) continue;
      Line newest = *moving;
      if (upward) --newest.constant;
      const Line r = {newest.slope + shift.slope, newest.constant + shift.constant};
      for (const int64_t i : {int64_t{0}, size_ - 1}) {
        if (r.At(i) < 0 || r.At(i) >= iterations_) return std::nullopt;
      }
      return Scan{simplify_.Rewrite(Substitute(value_, {{reduced_loop_, Plus(nullptr, r)}}, graph_)), descending};
    }
    return std::nullopt;
  }

  UOp* Plus(UOp* x, const Line& line) {
    UOp* sum = Idx(graph_, line.constant);
    if (line.slope != 0) sum = Add(graph_, sum, Mul(graph_, output_, Idx(graph_, line.slope)));
    return simplify_.Rewrite(x == nullptr ? sum : Add(graph_, x, sum));
  }

  // Takes the masks off `value`, and their limits to lows_ and highs_. False if more than
  // which j are reduced depends on i.
  bool Window(UOp* value, UOp* j) {
    std::vector<UOp*> conditions;
    UOp* core = Strip(value, conditions);
    if (core == nullptr) return false;
    DependsOn on_output(output_), on_j(j);
    for (UOp* condition : conditions) {
      const std::optional<IterationSet> iterations =
          on_j(condition) ? SolveFor(graph_, j, on_j, {condition}) : std::optional<IterationSet>();
      const bool solved = iterations.has_value() && iterations->gates.empty() && iterations->equal == nullptr &&
                          iterations->unequal == nullptr && AddAll(iterations->lows, lows_) &&
                          AddAll(iterations->highs, highs_);
      if (!solved && on_output(condition)) return false;
    }
    // Behind its masks, a load needs no gate that says the same.
    absl::flat_hash_map<UOp*, UOp*> open;
    for (UOp* uop : Toposort(core)) {
      if (uop->op() != Op::LOAD || uop->src().size() < 3 || !on_output(uop->src(2))) continue;
      const Conjuncts gate = ConjunctsOf(uop->src(2));
      const bool said = gate.complete && std::all_of(gate.parts.begin(), gate.parts.end(), [&](UOp* part) {
                          return std::find(conditions.begin(), conditions.end(), part) != conditions.end();
                        });
      if (!said) return false;
      open[uop] = graph_.Make(Op::LOAD, {uop->src(0)});
    }
    return !on_output(open.empty() ? core : Substitute(core, open, graph_));
  }

  // What is reduced where all `conditions` hold; where one does not, it is the identity.
  UOp* Strip(UOp* value, std::vector<UOp*>& conditions) {
    const auto require = [&](UOp* condition) {
      const Conjuncts parts = ConjunctsOf(simplify_.Rewrite(condition));
      conditions.insert(conditions.end(), parts.parts.begin(), parts.parts.end());
    };
    while (true) {
      UOp* nothing = Identity(graph_, reduce_op_, value->dtype());
      if (value->op() == Op::WHERE && value->src(2) == nothing) {
        require(value->src(0));
        value = value->src(1);
      } else if (value->op() == Op::WHERE && value->src(1) == nothing) {
        require(Not(graph_, value->src(0)));
        value = value->src(2);
      } else if (value->op() == Op::CAST && value->dtype() != DType::kBool && value->src(0)->dtype() != DType::kBool &&
                 (reduce_op_ != Op::MAX || (IsFloat(value->dtype()) && IsFloat(value->src(0)->dtype())))) {
        value = value->src(0);
      } else if (value->op() == Op::LOAD && value->src().size() > 2 && value->src(1) == nothing) {
        require(value->src(2));
        return graph_.Make(Op::LOAD, {value->src(0)});
      } else {
        return value;
      }
    }
  }

  bool AddAll(const std::vector<UOp*>& limits, std::vector<Line>& lines) {
    for (UOp* limit : limits) {
      const LinearForm form = ToLinear(simplify_.Rewrite(limit));
      Line line = {0, form.constant};
      for (const auto& term : form.terms) {
        if (term.node != output_) return false;
        line.slope = term.coefficient;
      }
      if (std::abs(line.slope) > 1 || std::abs(line.constant) > kMaxIterations) return false;
      lines.push_back(line);
    }
    return true;
  }

  // Of limits from above (or below) the one that is nowhere looser than another, and moves by
  // one with i, or does not.
  const Line* Tightest(const std::vector<Line>& lines, bool above, bool moves) const {
    for (const Line& line : lines) {
      if ((line.slope != 0) != moves) continue;
      const bool tightest = std::all_of(lines.begin(), lines.end(), [&](const Line& other) {
        for (const int64_t i : {int64_t{0}, size_ - 1}) {
          if (above ? other.At(i) < line.At(i) : other.At(i) > line.At(i)) return false;
        }
        return true;
      });
      if (tightest) return &line;
    }
    return nullptr;
  }

  Graph& graph_;
  Rewriter& simplify_;
  const Op reduce_op_;
  UOp *const value_, *const reduced_loop_, *const output_;
  const int64_t iterations_, size_;
  std::vector<Line> lows_, highs_;
};

bool IsMask(const UOp* uop) { return uop->op() == Op::CMPLT && IsInt(uop->src(0)->dtype()); }

}  // namespace

std::optional<Scan> ScanOf(Graph& graph, Rewriter& simplify, UOp* reduce, UOp* output) {
  if (reduce->src().size() != 2 || !reduce->arg_as<ReduceArg>().axes.empty()) return std::nullopt;
  for (const UOp* range : {reduce->src(1), output}) {
    if (!range->src(0)->IsConst()) return std::nullopt;
    const int64_t iterations = range->src(0)->const_int();
    if (iterations < 2 || iterations > kMaxIterations) return std::nullopt;
  }
  const std::vector<UOp*> order = ToposortUpTo(reduce->src(0), kMaxNodes);
  if (order.empty() || std::none_of(order.begin(), order.end(), IsMask)) return std::nullopt;
  return Recogniser(graph, simplify, reduce, output).Run();
}

}  // namespace kiln::compiler
