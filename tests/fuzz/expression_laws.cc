#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/wire.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"
#include "tests/fuzz/laws.h"
#include "tests/support/expression.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::Graph;
using compiler::Op;
using compiler::RuleSet;
using compiler::UOp;

constexpr int kAssignments = 16;

// ConstArg's form is sign-extended where the dtype is signed.
bool Within(const UOp* uop, uint64_t bits) {
  const compiler::Bounds& bounds = uop->bounds();
  if (!bounds.known) return true;
  const __int128 value = compiler::IsSigned(uop->dtype()) ? __int128{static_cast<int64_t>(bits)} : __int128{bits};
  return bounds.min <= value && value <= bounds.max;
}

std::string CheckBounds(UOp* root, const Assignment& values) {
  for (UOp* uop : compiler::Toposort(root)) {
    const auto value = values.find(uop);
    if (value == values.end() || Within(uop, value->second)) continue;
    return absl::StrCat("value ", static_cast<int64_t>(value->second), " is out of bounds [",
                        static_cast<int64_t>(uop->bounds().min), ", ", static_cast<int64_t>(uop->bounds().max),
                        "] of the root of\n", compiler::ToText(uop));
  }
  return "";
}

int CostOf(UOp* root) {
  int cost = 0;
  for (const UOp* uop : compiler::Toposort(root)) {
    const Op op = uop->op();
    const bool division = op == Op::FLOORDIV || op == Op::FLOORMOD || op == Op::CDIV || op == Op::CMOD;
    if (compiler::IsElementwise(op)) cost += division ? 4 : 1;
  }
  return cost;
}

// A quotient or remainder may be taken apart at the cost of an addition and a sign.
int SplitsIn(UOp* root) {
  int splits = 0;
  for (const UOp* uop : compiler::Toposort(root))
    splits += uop->op() == Op::FLOORDIV || uop->op() == Op::FLOORMOD ? 2 : 0;
  return splits;
}

// Each rule alone, so that none hides another.
const std::vector<RuleSet>& SingleRules() {
  static const auto& rules = *new std::vector<RuleSet>([] {
    std::vector<RuleSet> all;
    for (const compiler::Rule& rule : compiler::SymbolicRules().rules()) all.push_back(RuleSet({rule}));
    return all;
  }());
  return rules;
}

UOp* MakeExpression(ExpressionMaker& maker, uint64_t seed) {
  const int depth = static_cast<int>(maker.random().In(1, 6));
  switch (seed % 4) {
    case 0: return maker.Bool(depth);
    case 1:
      return maker.Of(maker.random().Pick({DType::kBool, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                                           DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}),
                      std::min(depth, 5));
    default: return maker.Index(depth);
  }
}

}  // namespace

LawFuzzer::LawFuzzer() {
  for (const compiler::Rule& rule : compiler::SymbolicRules().rules()) met_[std::string(rule.name)] = 0;
}

std::string LawFuzzer::CheckExpression(uint64_t seed) {
  Graph graph;
  ExpressionMaker maker(graph, seed);
  UOp* before = MakeExpression(maker, seed);
  std::vector<Assignment> assignments, values;
  for (int i = 0; i < kAssignments; ++i) {
    assignments.push_back(maker.Assign());
    values.push_back(EvaluateAll(before, assignments.back()));
    if (std::string fault = CheckBounds(before, values.back()); !fault.empty()) return fault;
  }
  for (UOp* uop : compiler::Toposort(before)) {
    if (!compiler::IsElementwise(uop->op())) continue;
    for (const RuleSet& rule : SingleRules()) {
      UOp* replaced = rule.Apply(uop, graph);
      if (replaced == nullptr) continue;
      const std::string name(rule.rules()[0].name);
      ++met_[name];
      for (int i = 0; i < kAssignments; ++i) {
        if (Evaluate(replaced, assignments[i]) == values[i].at(uop)) continue;
        return absl::StrCat("the rule \"", name, "\" made of\n", compiler::ToText(uop), "another value:\n",
                            compiler::ToText(replaced));
      }
    }
  }
  UOp* after = compiler::GraphRewrite(before, compiler::SymbolicRules(), graph);
  const std::string both = absl::StrCat(compiler::ToText(before), "became\n", compiler::ToText(after));
  if (after->dtype() != before->dtype()) return "another dtype: " + both;
  const size_t size = graph.size();
  UOp* again = compiler::GraphRewrite(after, compiler::SymbolicRules(), graph);
  if (again != after) return absl::StrCat("not idempotent: ", both, "then\n", compiler::ToText(again));
  if (graph.size() != size) return "needless new nodes though nothing changed: " + both;
  // Sharing makes the count of a sum uncertain.
  if (CostOf(after) > CostOf(before) * 5 / 4 + 1 + SplitsIn(before)) return "costlier: " + both;
  for (int i = 0; i < kAssignments; ++i) {
    const Assignment now = EvaluateAll(after, assignments[i]);
    if (now.at(after) != values[i].at(before)) return "another value: " + both;
    if (std::string fault = CheckBounds(after, now); !fault.empty()) return fault;
  }
  return "";
}

bool IsOutsideTheFuzz(const std::string& rule) {
  // No memory, no floats, and no CAST or BITCAST that changes nothing.
  for (const char* word : {"load(", "store(", "x / 1", "to x's own dtype"}) {
    if (absl::StrContains(rule, word)) return true;
  }
  return false;
}

}  // namespace kiln::testing
