#include "tests/reduce/trial.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "base/graph/graph_text.h"
#include "tests/reduce/child.h"

namespace kiln::testing {
namespace {

v1::Graph Read(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

TEST(RunInChild, TellsHowItEnded) {
  const ChildEnd end = RunInChild(
      [](int descriptor) {
        WriteAll(descriptor, "said");
        return 3;
      },
      60);
  EXPECT_EQ(end.kind, ChildEnd::kExited);
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(end.output, "said");

  const ChildEnd crash = RunInChild([](int) -> int { std::abort(); }, 60);
  EXPECT_EQ(crash.kind, ChildEnd::kSignalled);
  EXPECT_EQ(crash.code, SIGABRT);

  volatile bool forever = true;
  const ChildEnd hang = RunInChild(
      [&](int) {
        while (forever) {
        }
        return 0;
      },
      0.05);
  EXPECT_EQ(hang.kind, ChildEnd::kTimedOut);
}

// More than a pipe holds.
TEST(RunInChild, ReadsWhileTheChildWrites) {
  const ChildEnd end = RunInChild(
      [](int descriptor) {
        WriteAll(descriptor, std::string(1 << 20, 'x'));
        return 0;
      },
      60);
  EXPECT_EQ(end.output.size(), size_t{1} << 20);
}

constexpr char kRefused[] =
    "0 CONST [] weakint 4\n"
    "1 STACK [0]\n"
    "2 PARAM [1] slot=0 dtype=float32\n"
    "3 PARAM [1] slot=1 dtype=int32\n"
    "4 NEG [2]\n"
    "5 ADD [4, 3]\n"
    "6 SIN [2]\n"
    "7 TUPLE [5, 6]\n";

TEST(Fails, ShrinksToTheNodesAtFault) {
  Trial trial;
  trial.question = Question::kFails;
  const v1::Graph graph = Read(kRefused);
  EXPECT_EQ(Answer(graph, trial).substr(0, 14), "DTYPE_MISMATCH");
  const Reduction reduction = Reduce(graph, AmongLegal(graph, PropertyOf(graph, trial), 60), DeriveTypes, nullptr);
  ASSERT_TRUE(reduction.held);
  EXPECT_LE(reduction.graph.nodes_size(), 3) << PrintGraph(reduction.graph);

  trial.wanted = "no such words";
  EXPECT_FALSE(Reduce(graph, PropertyOf(graph, trial), DeriveTypes, nullptr).held);
}

TEST(Differs, IsFalseWhereTheEnginesAgree) {
  Trial trial;
  EXPECT_EQ(
      Answer(Read("0 CONST [] weakint 4\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=float32\n3 NEG [2]\n4 TUPLE [3]\n"),
             trial),
      "");
}

// pow by both engines is within bounds, and not the same to the last bit.
TEST(Differs, FindsOtherValues) {
  const v1::Graph graph = Read(
      "0 CONST [] weakint 64\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=float32\n3 PARAM [1] slot=1 dtype=float32\n"
      "4 CONST [] float32 0.3\n5 MUL [2, 4]\n6 SIN [5]\n7 ADD [6, 3]\n8 EXP2 [7]\n9 TUPLE [8, 3]\n");
  Trial trial;
  ASSERT_EQ(Answer(graph, trial), "values");
  const Reduction reduction = Reduce(graph, AmongLegal(graph, PropertyOf(graph, trial), 60), DeriveTypes, nullptr);
  ASSERT_TRUE(reduction.held);
  EXPECT_LE(reduction.graph.nodes_size(), 6) << PrintGraph(reduction.graph);
  EXPECT_EQ(Answer(reduction.graph, trial), "values");
  trial.tolerance.ulp = 1 << 20;
  EXPECT_EQ(Answer(graph, trial), "");
}

TEST(BreaksLaws, IsFalseWhereEveryPassKeepsTheMeaning) {
  Trial trial;
  trial.question = Question::kBreaksLaws;
  EXPECT_EQ(
      Answer(Read("0 CONST [] weakint 4\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=float32\n3 NEG [2]\n4 TUPLE [3]\n"),
             trial),
      "");
}

TEST(Command, IsAskedWithAFile) {
  const v1::Graph graph = Read(kRefused);
  const std::string file = std::string(std::getenv("TEST_TMPDIR")) + "/candidate.uop";
  const Reduction reduction = Reduce(graph, PropertyOfCommand("grep -q SIN {}", file, 60), DeriveTypes, nullptr);
  ASSERT_TRUE(reduction.held);
  EXPECT_EQ(PrintGraph(reduction.graph), "0 SIN []\n");  // nobody asked for legal graphs
  EXPECT_FALSE(PropertyOfCommand("exit 1;", file, 60)(graph));
  EXPECT_FALSE(PropertyOfCommand("sleep 60 #", file, 0.05)(graph));
}

TEST(DeriveTypesApart, IsDeriveTypes) {
  const auto apart = DeriveTypesApart(Read(kRefused), 60), here = DeriveTypes(Read(kRefused));
  ASSERT_EQ(apart.size(), here.size());
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(apart[i].dtype, here[i].dtype) << i;
    EXPECT_EQ(apart[i].shape, here[i].shape) << i;
  }
  EXPECT_EQ(here[4].shape, std::vector<int64_t>{4});
  EXPECT_EQ(here[5].dtype, v1::DTYPE_UNSPECIFIED);
}

}  // namespace
}  // namespace kiln::testing
