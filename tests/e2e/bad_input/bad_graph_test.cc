// Graphs that no compiler could accept.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/e2e/bad_input/bad_input.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

std::function<absl::Status(Stubs&)> Compiling(const v1::Graph& graph) {
  return [graph](Stubs& stubs) { return Compile(stubs, graph).status(); };
}
std::function<absl::Status(Stubs&)> Compiling(const std::string& text) { return Compiling(GraphOf(text)); }

v1::Graph Chain(int length) {
  std::string text = "0 CONST [] weakint 8\n1 PARAM : float32 [0] slot=0\n";
  for (int i = 2; i < length; ++i) absl::StrAppend(&text, i, " SIN [", i - 1, "]\n");
  absl::StrAppend(&text, length, " TUPLE [", length - 1, "]\n");
  return GraphOf(text);
}

v1::Graph Wide(int nodes) {
  v1::Graph graph = GraphOf(kAddOne);
  const v1::UOp root = graph.nodes(graph.nodes_size() - 1);
  graph.mutable_nodes()->RemoveLast();
  while (graph.nodes_size() + 1 < nodes) *graph.add_nodes() = graph.nodes(2);
  *graph.add_nodes() = root;
  return graph;
}

v1::Graph Tagged(size_t bytes) {
  v1::Graph graph = GraphOf(kAddOne);
  graph.mutable_nodes(0)->set_tag(std::string(bytes, 't'));
  return graph;
}

TEST_F(BadInputTest, Graphs) {
  const std::string x = "0 CONST [] weakint 8\n1 PARAM : float32 [0] slot=0\n";
  Check({
      {"no node", Compiling(v1::Graph()), StatusCode::kInvalidArgument, v1::GRAPH_EMPTY},
      {"a cycle", Compiling(x + "2 ADD [1, 3]\n3 ADD [1, 2]\n4 TUPLE [3]\n"), StatusCode::kInvalidArgument,
       v1::GRAPH_CYCLE, 2},
      {"its own source", Compiling(x + "2 ADD [1, 2]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument, v1::GRAPH_CYCLE,
       2},
      {"source out of range", Compiling(x + "2 ADD [1, 77]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::SOURCE_OUT_OF_RANGE, 2},
      {"unknown op", Compiling(x + "2 999 [1]\n3 TUPLE [2]\n"), StatusCode::kUnimplemented, v1::UNKNOWN_OP, 2},
      {"wrong source count", Compiling(x + "2 ADD [1]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::WRONG_SOURCE_COUNT, 2},
      {"missing op argument", Compiling(x + "2 CAST [1]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::BAD_ARGUMENT, 2},
      {"dtype mismatch", Compiling(x + "2 PARAM : int32 [0] slot=1\n3 ADD [1, 2]\n4 TUPLE [3]\n"),
       StatusCode::kInvalidArgument, v1::DTYPE_MISMATCH, 3},
      {"dtype check", Compiling(x + "2 ADD : int32 [1, 1]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::DTYPE_MISMATCH, 2},
      {"shape mismatch",
       Compiling(x + "2 CONST [] weakint 7\n3 PARAM : float32 [2] slot=1\n4 ADD [1, 3]\n5 TUPLE [4]\n"),
       StatusCode::kInvalidArgument, v1::SHAPE_MISMATCH, 4},
      {"size overflow",
       Compiling("0 CONST [] weakint 1099511627776\n1 STACK [0, 0]\n2 PARAM : float32 [1] slot=0\n3 TUPLE [2]\n"),
       StatusCode::kInvalidArgument, v1::SIZE_OVERFLOW, 2},
      {"a fault at a node with a long tag",
       [&x] {
         v1::Graph graph = GraphOf(x + "2 ADD [1]\n3 TUPLE [2]\n");
         graph.mutable_nodes(2)->set_tag(std::string(20'000, 't'));
         return Compiling(graph);
       }(),
       StatusCode::kInvalidArgument, v1::WRONG_SOURCE_COUNT, 2},
      {"no root", Compiling(x), StatusCode::kInvalidArgument, v1::BAD_ROOT, 1},
      {"too many nodes", Compiling(Wide(kMaxNodes + 1)), StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE,
       std::nullopt, std::nullopt, 0, "nodes"},
      {"too many bytes", Compiling(Tagged(kMaxBytes)), StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE,
       std::nullopt, std::nullopt, 0, "bytes"},
      {"too deep", Compiling(Chain(kMaxDepth + 10)), StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE},
      {"unknown device",
       [](Stubs& stubs) {
         v1::CompileRequest request;
         *request.mutable_graph() = GraphOf(kAddOne);
         request.set_device("CUDA:0");
         return Compile(stubs, request).status();
       },
       StatusCode::kNotFound, v1::UNKNOWN_DEVICE},
      {"nodes counted before they are decoded",
       [](Stubs& stubs) {
         // Two bytes a node, and then no message at all.
         std::string nodes;
         for (int i = 0; i < 50'000; ++i) nodes.append("\x0a\x00", 2);
         const std::string head("\x0a\xa0\x8d\x06", 4);  // field 1, of 100,000 bytes
         return CallRaw(stubs, "/kiln.v1.KernelService/Compile", head + nodes + "\xff\xff");
       },
       StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE, std::nullopt, std::nullopt, 0, "nodes"},
      {"no message", [](Stubs& stubs) { return CallRaw(stubs, "/kiln.v1.KernelService/Compile", "\xff\xff"); },
       StatusCode::kInvalidArgument, v1::MALFORMED_MESSAGE},
  });
}

TEST_F(BadInputTest, TheNodeIsNamedAsTheClientKnowsIt) {
  const absl::Status status =
      Compile(*stubs_,
              GraphOf("0 CONST [] weakint 8\n1 PARAM : float32 [0] slot=0\n2 ADD [1] @\"my sum\"\n3 TUPLE [2]\n"))
          .status();
  const auto detail = DetailOf(status);
  ASSERT_TRUE(detail.has_value()) << status;
  EXPECT_EQ(detail->node(), 2u);
  EXPECT_EQ(detail->op(), "ADD");
  EXPECT_EQ(detail->tag(), "my sum");
}

}  // namespace
}  // namespace kiln::e2e
