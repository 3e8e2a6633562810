#include "compiler/batch/kernel_rows.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/facts.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

// A buffer of the kernel, as MakeCall names it: not a variable.
bool IsBuffer(const UOp* uop) { return uop->op() == Op::PARAM && uop->addrspace() == AddrSpace::kGlobal; }

// INDEX(buffer, i), and nothing else.
bool IsPlace(const UOp* uop) {
  return uop->op() == Op::INDEX && uop->src().size() == 2 && IsBuffer(uop->src(0)) && uop->src(0)->shape().size() == 1;
}

// The one STORE of a kernel and the loops around it, outermost first.
struct Nest {
  UOp* store = nullptr;
  absl::Span<UOp* const> loops;
};

std::optional<Nest> NestOf(const UOp* kernel) {
  if (kernel->op() != Op::SINK || kernel->src().size() != 1) return std::nullopt;
  UOp* body = kernel->src(0);
  Nest nest{body, {}};
  if (body->op() == Op::END) nest = {body->src(0), body->src().subspan(1)};
  const UOp* store = nest.store;
  if (store->op() != Op::STORE || store->src().size() != 2 || !IsPlace(store->src(0))) return std::nullopt;
  if (store->src(0)->src(0)->arg_as<BufferArg>().slot != 0) return std::nullopt;
  absl::flat_hash_set<const UOp*> seen;
  for (const UOp* loop : nest.loops) {
    if (loop->op() != Op::RANGE || !seen.insert(loop).second) return std::nullopt;
  }
  return nest;
}

// Whether the STORE's index counts through its buffer from one end to the other.
bool StoresInOrder(Graph& graph, const Nest& nest) {
  Polynomial flat, elements(1);
  for (UOp* loop : nest.loops) {
    const Polynomial bound = PolynomialOf(graph, loop->src(0));
    flat = flat * bound + Polynomial::Atom(loop);
    elements = elements * bound;
  }
  const UOp* place = nest.store->src(0);
  return PolynomialOf(graph, place->src(1)).Equals(flat) &&
         PolynomialOf(graph, place->src(0)->shape()[0]).Equals(elements);
}

// What of a shared buffer's kernel has to do with rows; it has the variable somewhere.
RowFault FaultOfShared(UOp* kernel, const UOp* variable) {
  Dependents dependents(variable);
  const std::vector<UOp*> order = Toposort(kernel);
  for (const UOp* uop : order) {
    if (uop->op() != Op::REDUCE) continue;
    for (const UOp* loop : uop->src().subspan(1)) {
      if (dependents.Contain(loop)) return {Forbids::kReducesRows, uop};
    }
  }
  for (const UOp* uop : order) {
    if (uop->op() == Op::LOAD && IsPlace(uop->src(0)) && dependents.Contain(uop->src(0)->src(0)->shape()[0]))
      return {Forbids::kMadeOfRows, uop};
  }
  return {Forbids::kVariable, kernel};
}

// Walks all that one row's iterations compute, and stops at the first use of the row's number or of the
// variable that is not allowed.
class RowWalk {
 public:
  // `row` is b; `whole` the loop over rows as the kernel has it, which may be b itself.
  RowWalk(Graph& graph, UOp* variable, UOp* row, const UOp* whole, std::vector<RowEquation>* used)
      : graph_(graph), variable_(variable), dependents_(variable), row_(row), whole_(whole), used_(used) {}

  // What `uop` may be is said where it may not have to do with rows.
  void Add(UOp* uop, Forbids why) {
    if (seen_.insert(uop).second) left_.push_back({uop, why});
  }

  std::optional<RowFault> Run() {
    while (!left_.empty()) {
      const Item item = left_.back();
      left_.pop_back();
      if (std::optional<RowFault> fault = Visit(item); fault.has_value()) return fault;
    }
    return std::nullopt;
  }

 private:
  struct Item {
    UOp* uop;
    Forbids why;
  };

  std::optional<RowFault> Visit(const Item& item) {
    UOp* uop = item.uop;
    if (uop == row_ || uop == whole_) return RowFault{item.why, uop};
    if (uop == variable_) return RowFault{Forbids::kVariable, uop};
    if (uop->IsVariable() || uop->IsConst()) return std::nullopt;
    if (uop->op() == Op::LOAD) return Load(item);
    if (uop->op() == Op::REDUCE) return Reduce(item);
    if (uop->op() != Op::RANGE && uop->op() != Op::BITCAST && !IsElementwise(uop->op()))
      return RowFault{Forbids::kUnknown, uop};
    if (uop->op() != Op::RANGE && IsInt(uop->dtype()) && uop->shape().empty()) {
      // b * 8 - b * 8 has nothing to do with b.
      if (const Polynomial sum = PolynomialOf(graph_, uop); sum.exact() && !HasAtom(sum, uop)) {
        AddAtoms(sum, item.why);
        return std::nullopt;
      }
    }
    for (UOp* source : uop->src()) Add(source, item.why);
    return std::nullopt;
  }

  std::optional<RowFault> Reduce(const Item& item) {
    Add(item.uop->src(0), item.why);
    for (UOp* loop : item.uop->src().subspan(1)) {
      if (loop->op() != Op::RANGE) return RowFault{Forbids::kUnknown, item.uop};
      if (loop == row_ || loop == whole_ || dependents_.Contain(loop->src(0)))
        return RowFault{Forbids::kReducesRows, item.uop};
      Add(loop, item.why);
    }
    return std::nullopt;
  }

  std::optional<RowFault> Load(const Item& item) {
    UOp* load = item.uop;
    if (!IsPlace(load->src(0))) return RowFault{Forbids::kUnknown, load};
    const UOp* buffer = load->src(0)->src(0);
    UOp* index = load->src(0)->src(1);
    UOp* gate = load->src().size() > 2 ? load->src(2) : nullptr;
    if (dependents_.Contain(buffer->shape()[0])) {
      const std::optional<Polynomial> stride = PerRow(graph_, PolynomialOf(graph_, buffer->shape()[0]), variable_);
      if (!stride.has_value()) return RowFault{Forbids::kShape, buffer};
      Polynomial factor, rest;
      const Polynomial place = PolynomialOf(graph_, index);
      if (!place.exact() || !place.Split(row_, factor, rest) || !factor.Equals(*stride))
        return RowFault{Forbids::kOtherRow, load};
      if (!IsInside(rest, *stride, gate)) return RowFault{Forbids::kLeavesRow, load};
      AddAtoms(rest, Forbids::kOtherRow);
      if (used_ != nullptr) used_->push_back({index, row_, FromPolynomial(graph_, *stride), gate});
    } else {
      Add(index, Forbids::kRowNumberInShared);
    }
    if (load->src().size() > 1) Add(load->src(1), item.why);
    if (gate != nullptr) Add(gate, Forbids::kRowNumberInGate);
    return std::nullopt;
  }

  // Whether 0 <= rest < stride wherever the gate holds.
  bool IsInside(const Polynomial& rest, const Polynomial& stride, UOp* gate) {
    if (IsNonNegative(graph_, rest) && IsNonNegative(graph_, stride - rest - Polynomial(1))) return true;
    const std::optional<int64_t> size = stride.constant();
    if (gate == nullptr || !size.has_value() || !rest.Range().has_value()) return false;
    const Bounds bounds = NarrowedBounds(FromPolynomial(graph_, rest), FactsFrom(gate));
    return bounds.known && bounds.min >= 0 && bounds.max < *size;
  }

  static bool HasAtom(const Polynomial& sum, const UOp* atom) {
    return std::any_of(sum.terms().begin(), sum.terms().end(), [atom](const auto& term) {
      return std::find(term.atoms.begin(), term.atoms.end(), atom) != term.atoms.end();
    });
  }

  void AddAtoms(const Polynomial& sum, Forbids why) {
    for (const auto& term : sum.terms()) {
      for (UOp* atom : term.atoms) Add(atom, why);
    }
  }

  Graph& graph_;
  UOp* variable_;
  Dependents dependents_;
  UOp* row_;
  const UOp* whole_;
  std::vector<RowEquation>* used_;
  std::vector<Item> left_;
  absl::flat_hash_set<const UOp*> seen_;
};

}  // namespace

absl::string_view Words(Forbids why) {
  switch (why) {
    case Forbids::kByHand: return "a kernel that a client wrote";
    case Forbids::kUpdates: return "an update in place";
    case Forbids::kDevices: return "a value on several devices";
    case Forbids::kCondition: return "whether a call has a meaning depends on the batch size";
    case Forbids::kShape:
      return "a shape whose first size is not a multiple of the batch size, or another depends on it";
    case Forbids::kOrder: return "not every element is stored once, row after row";
    case Forbids::kReducesRows: return "a reduction runs over rows";
    case Forbids::kMadeOfRows: return "what has no rows is made of rows";
    case Forbids::kRowNumber: return "a value depends on the row's number";
    case Forbids::kRowNumberInGate: return "a condition depends on the row's number";
    case Forbids::kRowNumberInShared: return "what all rows share is read at the row's number";
    case Forbids::kVariable: return "a value depends on the batch size";
    case Forbids::kOtherRow: return "a row reads elements of another";
    case Forbids::kLeavesRow: return "an index may leave its row";
    case Forbids::kTooLarge: return "not looked at: the program is too large";
    case Forbids::kUnknown: return "an op that the proof does not know";
  }
  return "";
}

bool Dependents::Contain(const UOp* root) {
  std::vector<const UOp*> left = {root};
  while (!left.empty()) {
    const UOp* node = left.back();
    const size_t before = left.size();
    bool depends = node == leaf_;
    if (!known_.contains(node)) {
      for (const UOp* source : node->src()) {
        const auto known = known_.find(source);
        if (known == known_.end()) left.push_back(source);
        depends = depends || (known != known_.end() && known->second);
      }
    }
    if (left.size() > before) continue;  // its sources first
    known_.try_emplace(node, depends);
    left.pop_back();
  }
  return known_.find(root)->second;
}

std::optional<Polynomial> PerRow(Graph& graph, const Polynomial& size, UOp* variable) {
  const std::optional<Polynomial> each = size.DividedBy(PolynomialOf(graph, variable));
  if (!each.has_value() || !each->Range().has_value()) return std::nullopt;
  if (Dependents(variable).Contain(FromPolynomial(graph, *each))) return std::nullopt;
  return each;
}

std::optional<RowFault> FaultOfKernel(Graph& graph, UOp* kernel, UOp* variable, std::vector<RowEquation>* used) {
  const std::optional<Nest> nest = NestOf(kernel);
  if (!nest.has_value()) return RowFault{Forbids::kUnknown, kernel};
  const UOp* stored = nest->store->src(0)->src(0);
  for (const UOp* uop : Toposort(nest->store->src(1))) {
    if (IsBuffer(uop) && uop->arg_as<BufferArg>().slot == 0) return RowFault{Forbids::kUpdates, nest->store};
  }
  const Dim& elements = stored->shape()[0];
  const bool shared = variable == nullptr || !Dependents(variable).Contain(elements);
  if (shared && variable != nullptr) return FaultOfShared(kernel, variable);
  if (!shared && !PerRow(graph, PolynomialOf(graph, elements), variable).has_value())
    return RowFault{Forbids::kShape, nest->store};
  if (!StoresInOrder(graph, *nest)) return RowFault{Forbids::kOrder, nest->store};
  if (shared) return std::nullopt;
  if (nest->loops.empty()) return RowFault{Forbids::kOrder, nest->store};

  UOp* whole = nest->loops[0];
  const std::optional<Polynomial> each = PerRow(graph, PolynomialOf(graph, whole->src(0)), variable);
  if (!each.has_value()) return RowFault{Forbids::kOrder, whole};
  UOp* value = nest->store->src(1);
  UOp* row = whole;
  if (each->constant() != 1) {
    // b * c + e in place of the loop; but a REDUCE takes its loop as it is.
    for (const UOp* uop : Toposort(value)) {
      if (uop->op() != Op::REDUCE) continue;
      const auto loops = uop->src().subspan(1);
      if (std::find(loops.begin(), loops.end(), whole) != loops.end()) return RowFault{Forbids::kReducesRows, uop};
    }
    const auto loop = [&](UOp* bound) {
      return graph.Make(Op::RANGE, {bound}, RangeArg{graph.NextId(), AxisType::kLoop});
    };
    UOp* size = FromPolynomial(graph, *each);
    row = loop(Cast(graph, variable, kIndexType));
    UOp* parts = Add(graph, Mul(graph, row, size), loop(size));
    value = GraphRewrite(Substitute(value, {{whole, parts}}, graph), SymbolicRules(), graph);
  }
  RowWalk walk(graph, variable, row, whole, used);
  walk.Add(value, Forbids::kRowNumber);
  for (UOp* loop : nest->loops.subspan(1)) walk.Add(loop, Forbids::kRowNumber);
  return walk.Run();
}

}  // namespace kiln::compiler
