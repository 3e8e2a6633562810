// Programs written by hand, on the interpreter, against values computed beside
// each of them.
#include <gtest/gtest.h>

#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

TEST(Programs, InterpretedGiveTheExpectedValues) {
  for (const ProgramCase& test : ProgramCases()) {
    SCOPED_TRACE(test.name);
    const auto got = RunInterpreted(test.graph, test.arguments);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(test.graph);
    compiler::InterpResult want;
    want.written = test.expected;
    EXPECT_EQ(CompareOutcomes(*got, want, test.tolerance), "");
  }
}

TEST(Programs, KernelGraphsToo) {
  for (const ProgramCase& test : KernelCases()) {
    SCOPED_TRACE(test.name);
    const auto got = RunInterpreted(test.graph, test.arguments);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(test.graph);
    compiler::InterpResult want;
    want.written = test.expected;
    EXPECT_EQ(CompareOutcomes(*got, want, test.tolerance), "");
  }
}

// After import a program is in core ops, every node listed: read again, it
// stays as it is.
TEST(Programs, AreReadOnce) {
  for (const ProgramCase& test : ProgramCases()) {
    SCOPED_TRACE(test.name);
    compiler::Graph first, second;
    const auto root = compiler::FromWire(test.graph, compiler::Limits(), first);
    ASSERT_TRUE(root.ok()) << root.status();
    const std::string text = compiler::ToText(*root);
    const auto again = compiler::FromWire(compiler::ToWire(*root), compiler::Limits(), second);
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ(compiler::ToText(*again), text);
  }
}

}  // namespace
}  // namespace kiln::testing
