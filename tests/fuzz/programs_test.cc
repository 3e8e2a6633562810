// Random programs: legal, the same read twice, and harmless to interpret.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "tests/fuzz/program_maker.h"
#include "tests/support/compare.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

void Check(uint64_t seed, const ProgramTaste& taste) {
  const MadeProgram made = MakeProgram(seed, taste);
  compiler::Graph first, second;
  const auto root = compiler::FromWire(made.graph, compiler::Limits(), first);
  ASSERT_TRUE(root.ok()) << root.status() << "\n" << PrintGraph(made.graph);
  const v1::Graph core = compiler::ToWire(*root);
  const auto again = compiler::FromWire(core, compiler::Limits(), second);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << PrintGraph(core);
  ASSERT_EQ(compiler::ToWire(*again).SerializeAsString(), core.SerializeAsString());

  const auto result = RunInterpreted(made.graph, made.arguments);
  ASSERT_TRUE(result.ok()) << result.status() << "\n" << PrintGraph(made.graph);
  const auto from_core = RunInterpreted(core, made.arguments);
  ASSERT_TRUE(from_core.ok()) << from_core.status();
  EXPECT_EQ(CompareOutcomes(*from_core, *result, Tolerance()), "");
}

TEST(RandomPrograms, WithoutRaces) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Check(seed, {true, 12});
    if (HasFatalFailure()) return;
  }
}

TEST(RandomPrograms, WithRaces) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Check(seed, {false, 12});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kiln::testing
