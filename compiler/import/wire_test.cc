#include "compiler/import/wire.h"

#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"

namespace kiln::compiler {
namespace {

v1::Graph Parse(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

// The core ops that a graph is read as, without shapes as comments.
std::string CoreText(const std::string& text, v1::Dialect dialect = v1::TINYSPEC_2026) {
  v1::Graph wire = Parse(text);
  wire.set_dialect(dialect);
  Graph graph;
  const auto root = FromWire(wire, Limits(), graph);
  EXPECT_TRUE(root.ok()) << root.status();
  if (!root.ok()) return "";
  v1::Graph core = ToWire(*root);
  for (auto& node : *core.mutable_nodes()) node.clear_dtype();
  return PrintGraph(core);
}

constexpr char kEveryArg[] = R"(0 CONST [] weakint 2
1 STACK [0, 0]
2 PARAM [1] slot=3 dtype=float32 name="x"
3 PERMUTE [2] axes=(1, 0)
4 FLIP [3] flip=(1, 0)
5 CONST [] weakint 0
6 STACK [5, 5]
7 CONST [] weakint 4
8 STACK [7, 7]
9 PAD [4, 6, 8] fill=float32 1.5
10 PAD [9, 6, 8]
11 REDUCE [10] MAX axes=(0)
12 CAST [11] to=int16
13 BINARY [] data="\x00\xff"
14 CONST [] int16 -7
15 ADD [12, 14]
16 BUFFER [1] slot=9 dtype=bool
17 CONST [] float64 -0.0
18 CONST [] bfloat16 invalid
19 CONST [] bool true
20 CONST [] uint64 18446744073709551615u
21 TUPLE [15, 13, 16, 17, 18, 19, 20]
22 TUPLE [21, 15]
)";

TEST(Wire, RoundTripIsExact) {
  Graph graph, again;
  const auto root = FromWire(Parse(kEveryArg), Limits(), graph);
  ASSERT_TRUE(root.ok()) << root.status();
  const v1::Graph wire = ToWire(*root);
  const auto second = FromWire(wire, Limits(), again);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ToWire(*second).SerializeAsString(), wire.SerializeAsString());
  EXPECT_EQ(ToText(*second), ToText(*root));
}

TEST(Wire, ToTextShowsShapes) {
  Graph graph;
  const auto root =
      FromWire(Parse("0 CONST [] weakint 2\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=int8\n"), Limits(), graph);
  ASSERT_TRUE(root.ok());
  EXPECT_NE(ToText(*root).find("# (2,)"), std::string::npos) << ToText(*root);
}

TEST(Wire, DuplicateNodesBecomeOne) {
  Graph graph;
  const auto root = FromWire(Parse("0 CONST [] int32 1\n1 CONST [] int32 1\n2 ADD [0, 1]\n"), Limits(), graph);
  ASSERT_TRUE(root.ok());
  EXPECT_EQ((*root)->src(0), (*root)->src(1));
}

struct Spelling {
  const char* sent;
  const char* core;
};

class SpellingTest : public ::testing::TestWithParam<Spelling> {};

TEST_P(SpellingTest, BecomesCoreOps) {
  const std::string prelude = "0 STACK []\n1 PARAM [0] slot=0 dtype=int32\n2 PARAM [0] slot=1 dtype=int32\n";
  EXPECT_EQ(CoreText(prelude + GetParam().sent), CoreText(prelude + GetParam().core));
}

INSTANTIATE_TEST_SUITE_P(
    All, SpellingTest,
    ::testing::Values(Spelling{"3 SUB [1, 2]", "3 CONST [] int32 -1\n4 MUL [2, 3]\n5 ADD [1, 4]"},
                      Spelling{"3 NEG [1]", "3 CONST [] int32 -1\n4 MUL [1, 3]"},
                      Spelling{"3 CMPGT [1, 2]", "3 CMPLT [2, 1]"},
                      Spelling{"3 CMPGE [1, 2]", "3 CMPLT [1, 2]\n4 CONST [] bool true\n5 CMPNE [3, 4]"},
                      Spelling{"3 CMPLE [1, 2]", "3 CMPLT [2, 1]\n4 CONST [] bool true\n5 CMPNE [3, 4]"},
                      Spelling{"3 CMPEQ [1, 2]", "3 CMPNE [1, 2]\n4 CONST [] bool true\n5 CMPNE [3, 4]"},
                      Spelling{"3 MULACC [1, 2, 2]", "3 MUL [1, 2]\n4 ADD [3, 2]"},
                      Spelling{"3 NOOP [1]\n4 ADD [3, 2]", "3 ADD [1, 2]"}, Spelling{"3 CONTIGUOUS [1]", "3 LOAD [1]"},
                      Spelling{"3 COPY [1]", "3 LOAD [1]"},
                      Spelling{"3 ASSIGN [1, 2]", "3 STORE [1, 2]\n4 AFTER [1, 3]"},
                      Spelling{"3 IDIV [1, 2]", "3 FLOORDIV [1, 2]"}, Spelling{"3 MOD [1, 2]", "3 FLOORMOD [1, 2]"}));

TEST(Wire, OlderDialectTruncates) {
  const std::string prelude = "0 STACK []\n1 PARAM [0] slot=0 dtype=int32\n";
  EXPECT_EQ(CoreText(prelude + "2 IDIV [1, 1]", v1::LEGACY_2025), CoreText(prelude + "2 CDIV [1, 1]"));
  EXPECT_EQ(CoreText(prelude + "2 MOD [1, 1]", v1::LEGACY_2025), CoreText(prelude + "2 CMOD [1, 1]"));
}

struct Bad {
  const char* name;
  std::function<void(v1::Graph&)> damage;
  v1::ErrorCode code;
  uint32_t node;
};

TEST(Wire, FaultsNameTheNode) {
  const Bad kRows[] = {
      {"no such op", [](v1::Graph& g) { g.mutable_nodes(1)->set_op(static_cast<v1::Op>(9999)); }, v1::UNKNOWN_OP, 1},
      {"no op", [](v1::Graph& g) { g.mutable_nodes(1)->clear_op(); }, v1::UNKNOWN_OP, 1},
      {"source out of range", [](v1::Graph& g) { g.mutable_nodes(2)->set_src(0, 77); }, v1::SOURCE_OUT_OF_RANGE, 2},
      {"itself", [](v1::Graph& g) { g.mutable_nodes(2)->set_src(0, 2); }, v1::GRAPH_CYCLE, 2},
      {"a later node", [](v1::Graph& g) { g.mutable_nodes(1)->add_src(2); }, v1::GRAPH_CYCLE, 1},
      {"wrong dtype check", [](v1::Graph& g) { g.mutable_nodes(2)->set_dtype(v1::INT8); }, v1::DTYPE_MISMATCH, 2},
      {"constant of no value", [](v1::Graph& g) { g.mutable_nodes(0)->mutable_constant()->clear_i(); },
       v1::BAD_ARGUMENT, 0},
      {"constant of no dtype", [](v1::Graph& g) { g.mutable_nodes(0)->mutable_constant()->clear_dtype(); },
       v1::BAD_ARGUMENT, 0},
  };
  for (const Bad& row : kRows) {
    v1::Graph wire = Parse("0 CONST [] int32 1\n1 CONST [] int32 2\n2 ADD [0, 1] @\"sum\"\n3 TUPLE [2]\n");
    row.damage(wire);
    Graph graph;
    const auto root = FromWire(wire, Limits(), graph);
    ASSERT_FALSE(root.ok()) << row.name;
    const auto detail = DetailOf(root.status());
    ASSERT_TRUE(detail.has_value()) << row.name;
    EXPECT_EQ(v1::ErrorCode_Name(detail->code()), v1::ErrorCode_Name(row.code)) << row.name;
    EXPECT_EQ(detail->node(), row.node) << row.name;
    if (row.node == 2) {
      EXPECT_EQ(detail->tag(), "sum") << row.name;
    }
  }
}

TEST(Wire, FaultsNameTheOpThatWasSent) {
  struct Row {
    const char* node;
    const char* op;
    const char* says;
  };
  const Row rows[] = {
      {"SUB [1, 2]", "SUB", "SUB wants operands of one dtype, not (int32, float32)"},
      {"CMPGT [1, 2]", "CMPGT", "CMPGT wants operands of one dtype, not (int32, float32)"},
      {"MULACC [1, 1, 2]", "MULACC", "MULACC wants operands of one dtype"},
      {"CMPLE [1, 3]", "CMPLE", "shapes (2,) and (3,) do not broadcast"},
      {"NEG [4]", "NEG", "NEG wants a value, not (void)"},
      {"IDIV [2, 2]", "IDIV", "IDIV, read as FLOORDIV, wants integers"},
      {"COPY [4]", "COPY", "COPY, read as LOAD, wants values"},
      {"ASSIGN [1, 2]", "ASSIGN", "ASSIGN, read as STORE, wants a value of the buffer's dtype"},
      {"REDUCE_AXIS [1] ADD axes=(1)", "REDUCE_AXIS", "REDUCE_AXIS, read as REDUCE, over axis 1"},
      {"ADD [1, 2]", "ADD", "ADD wants operands of one dtype"},
  };
  for (const Row& row : rows) {
    const v1::Graph wire = Parse(
        absl::StrCat("0 CONST [] weakint 2\n1 PARAM [0] slot=0 dtype=int32\n2 PARAM [0] slot=1 dtype=float32\n3 STACK "
                     "[0, 0, 0]\n4 STORE [1, 1]\n5 ",
                     row.node, " @\"mine\"\n"));
    Graph graph;
    const auto root = FromWire(wire, Limits(), graph);
    ASSERT_FALSE(root.ok()) << row.node;
    const auto detail = DetailOf(root.status());
    EXPECT_EQ(detail->op(), row.op) << root.status();
    EXPECT_EQ(detail->node(), 5u) << root.status();
    EXPECT_EQ(detail->tag(), "mine") << root.status();
    EXPECT_NE(root.status().message().find(row.says), absl::string_view::npos) << root.status();
  }
}

TEST(Wire, AnUnknownOpIsNamedByItsNumber) {
  v1::Graph wire = Parse("0 CONST [] int32 1\n");
  wire.mutable_nodes(0)->set_op(static_cast<v1::Op>(9999));
  Graph graph;
  EXPECT_EQ(DetailOf(FromWire(wire, Limits(), graph).status())->op(), "9999");
}

// What the root does not reach has no part in the graph's hash, so none in its meaning.
TEST(Wire, WhatTheRootDoesNotReachChangesNothing) {
  static constexpr char kVariable[] = "0 PARAM [] slot=1 dtype=int32 space=ALU name=\"n\" min=1 max=8\n";
  Graph graph;
  auto root =
      FromWire(Parse(absl::StrCat(kVariable, "1 CONST [] int32 3\n2 BIND [0, 1]\n3 TUPLE [0]\n")), Limits(), graph);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_TRUE(graph.bindings().empty());
  root = FromWire(Parse(absl::StrCat(kVariable, "1 CONST [] int32 3\n2 BIND [0, 1]\n3 TUPLE [2]\n")), Limits(), graph);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(graph.bindings().size(), 1u);

  static constexpr char kByName[] = "0 DEFINE_VAR [] slot=0 dtype=int32 name=\"n\" min=1 max=8\n";
  const auto slot_of = [](const std::string& rest) {
    Graph nodes;
    const auto read = FromWire(Parse(absl::StrCat(kByName, rest)), Limits(), nodes);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? (*read)->src(0)->arg_as<BufferArg>().slot : 99;
  };
  EXPECT_EQ(slot_of("1 TUPLE [0]\n"), 0u);
  EXPECT_EQ(slot_of("1 CONST [] weakint 4\n2 PARAM [1] slot=0 dtype=int32\n3 TUPLE [0]\n"), 0u);
  EXPECT_EQ(slot_of("1 DEFINE_VAR [] slot=0 dtype=int32 name=\"a\" min=1 max=8\n2 TUPLE [0]\n"), 0u);
  EXPECT_EQ(slot_of("1 CONST [] weakint 4\n2 PARAM [1] slot=0 dtype=int32\n3 TUPLE [0, 2]\n"), 1u);
}

// Among tensors, the second source of a LOAD is an alternative, whoever made the storage.
TEST(Wire, OldStorageAmongTensorsIsReadAsTheDialectSays) {
  const std::string nodes =
      "0 CONST [] weakint 4\n1 DEFINE_GLOBAL [0] slot=0 dtype=int32\n2 CONST [] int32 2\n3 LOAD [1, 2]\n4 TUPLE [3]\n";
  for (const auto& [dialect, shape] : {std::pair(v1::TINYSPEC_2026, Shape{4}), std::pair(v1::LEGACY_2025, Shape())}) {
    v1::Graph wire = Parse(nodes);
    wire.set_dialect(dialect);
    Graph graph;
    const auto root = FromWire(wire, Limits(), graph);
    ASSERT_TRUE(root.ok()) << root.status();
    EXPECT_EQ((*root)->src(0)->shape(), shape);
  }
}

v1::ErrorCode CodeUnder(const v1::Graph& wire, const Limits& limits) {
  Graph graph;
  const auto root = FromWire(wire, limits, graph);
  return root.ok() ? v1::ERROR_CODE_UNSPECIFIED : DetailOf(root.status())->code();
}

TEST(Wire, Limits) {
  EXPECT_EQ(CodeUnder(v1::Graph(), Limits()), v1::GRAPH_EMPTY);
  const v1::Graph wire = Parse("0 CONST [] int32 1\n1 ADD [0, 0]\n2 ADD [1, 1]\n");
  EXPECT_EQ(CodeUnder(wire, Limits()), v1::ERROR_CODE_UNSPECIFIED);
  Limits limits;
  limits.max_nodes = 2;
  EXPECT_EQ(CodeUnder(wire, limits), v1::GRAPH_TOO_LARGE);
  limits = Limits();
  limits.max_bytes = 10;
  EXPECT_EQ(CodeUnder(wire, limits), v1::GRAPH_TOO_LARGE);
  limits = Limits();
  limits.max_depth = 2;
  EXPECT_EQ(CodeUnder(wire, limits), v1::GRAPH_TOO_LARGE);
  limits = Limits();
  limits.max_kernels = 2;
  const std::string results = "0 CONST [] weakint 4\n1 PARAM : float32 [0] slot=0\n";
  EXPECT_EQ(CodeUnder(Parse(results + "2 TUPLE [1, 1]\n"), limits), v1::ERROR_CODE_UNSPECIFIED);
  EXPECT_EQ(CodeUnder(Parse(results + "2 TUPLE [1, 1, 1]\n"), limits), v1::GRAPH_TOO_LARGE);
}

}  // namespace
}  // namespace kiln::compiler
