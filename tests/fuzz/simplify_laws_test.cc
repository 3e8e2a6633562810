// Laws of the simplifying rules, on random expressions: the same value under
// every assignment, nothing left to do the second time, and bounds that hold.
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/wire.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"
#include "tests/support/expression.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::Graph;
using compiler::UOp;

constexpr int kAssignments = 24;

// ConstArg's form is sign-extended where the dtype is signed.
bool Within(const UOp* uop, uint64_t bits) {
  const compiler::Bounds& bounds = uop->bounds();
  if (!bounds.known) return true;
  const __int128 value = compiler::IsSigned(uop->dtype()) ? __int128{static_cast<int64_t>(bits)} : __int128{bits};
  return bounds.min <= value && value <= bounds.max;
}

void CheckBounds(UOp* root, const Assignment& values) {
  for (UOp* uop : compiler::Toposort(root)) {
    const auto value = values.find(uop);
    if (value == values.end()) continue;
    ASSERT_TRUE(Within(uop, value->second)) << "value " << static_cast<int64_t>(value->second) << " is out of bounds ["
                                            << static_cast<int64_t>(uop->bounds().min) << ", "
                                            << static_cast<int64_t>(uop->bounds().max) << "] of the root of\n"
                                            << compiler::ToText(uop);
  }
}

void CheckLaws(Graph& graph, ExpressionMaker& maker, UOp* before) {
  UOp* after = compiler::GraphRewrite(before, compiler::SymbolicRules(), graph);
  ASSERT_EQ(after->dtype(), before->dtype());
  const size_t size = graph.size();
  UOp* again = compiler::GraphRewrite(after, compiler::SymbolicRules(), graph);
  EXPECT_EQ(again, after) << "not idempotent:\n"
                          << compiler::ToText(before) << "became\n"
                          << compiler::ToText(after) << "then\n"
                          << compiler::ToText(again);
  EXPECT_EQ(graph.size(), size) << "needless new nodes, though nothing changed:\n" << compiler::ToText(after);
  for (int i = 0; i < kAssignments; ++i) {
    const Assignment assignment = maker.Assign();
    const Assignment values = EvaluateAll(before, assignment);
    const Assignment new_values = EvaluateAll(after, assignment);
    ASSERT_EQ(values.at(before), new_values.at(after)) << compiler::ToText(before) << "became\n"
                                                       << compiler::ToText(after);
    CheckBounds(before, values);
    CheckBounds(after, new_values);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

template <typename Make>
void Fuzz(int cases, Make make) {
  for (int seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph;
    ExpressionMaker maker(graph, static_cast<uint64_t>(seed));
    CheckLaws(graph, maker, make(maker));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SimplifyLaws, IndexArithmetic) {
  Fuzz(20000, [](ExpressionMaker& maker) { return maker.Index(static_cast<int>(maker.random().In(2, 6))); });
}

TEST(SimplifyLaws, Gates) {
  Fuzz(10000, [](ExpressionMaker& maker) { return maker.Bool(static_cast<int>(maker.random().In(2, 6))); });
}

TEST(SimplifyLaws, EveryIntegerDtype) {
  Fuzz(20000, [](ExpressionMaker& maker) {
    const DType dtype = maker.random().Pick({DType::kBool, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                                             DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64});
    return maker.Of(dtype, static_cast<int>(maker.random().In(1, 5)));
  });
}

// The fuzzers above say something about a rule only if their expressions meet
// its pattern. They make no memory, no floats, and no CAST or BITCAST that
// changes nothing.
bool IsOutsideTheFuzz(absl::string_view rule) {
  for (const char* word : {"load(", "store(", "x / 1", "to x's own dtype"}) {
    if (absl::StrContains(rule, word)) return true;
  }
  return false;
}

TEST(SimplifyLaws, EveryRuleIsMet) {
  std::map<absl::string_view, int> met;
  for (const compiler::Rule& rule : compiler::SymbolicRules().rules()) met[rule.name] = IsOutsideTheFuzz(rule.name);
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Graph graph;
    ExpressionMaker maker(graph, seed);
    UOp* root = seed % 4 == 0   ? maker.Of(DType::kBool, 5)
                : seed % 4 == 1 ? maker.Of(DType::kInt32, 5)
                : seed % 4 == 2 ? maker.Bool(5)
                                : maker.Index(5);
    for (UOp* uop : compiler::Toposort(root)) {
      // Each rule on its own: an earlier one must not hide it.
      for (const compiler::Rule& rule : compiler::SymbolicRules().rules()) {
        if (met[rule.name] == 0 && compiler::RuleSet({rule}).Apply(uop, graph) != nullptr) ++met[rule.name];
      }
    }
  }
  for (const auto& [name, count] : met) EXPECT_GT(count, 0) << name;
}

}  // namespace
}  // namespace kiln::testing
