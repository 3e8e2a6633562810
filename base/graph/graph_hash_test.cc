#include "base/graph/graph_hash.h"

#include <cstdint>
#include <string>

#include "base/blake3.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

v1::Graph Parse(absl::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : v1::Graph();
}

std::string HashOf(absl::string_view text) {
  const auto hash = HashGraph(Parse(text));
  EXPECT_TRUE(hash.ok()) << hash.status();
  return hash.ok() ? hash->Hex() : "";
}

void ExpectError(const v1::Graph& graph, v1::ErrorCode code, uint32_t node, absl::string_view message) {
  const auto hash = HashGraph(graph);
  ASSERT_FALSE(hash.ok());
  const auto detail = DetailOf(hash.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), code);
  EXPECT_EQ(detail->node(), node);
  EXPECT_EQ(std::string(hash.status().message()), std::string(message));
}

TEST(HashGraph, TheExampleOfTheReadme) {
  EXPECT_EQ(HashOf("0 CONST [] int32 1\n1 SINK [0]"),
            "53bb5b3a8b979ac6d96a72d2cf60208e5d9224c76b0cf1f40881be4fc19f5969");
}

TEST(HashGraph, UnknownFieldsDoNotCount) {
  v1::Graph graph = Parse("0 CONST [] int32 1\n1 SINK [0]");
  graph.GetReflection()->MutableUnknownFields(&graph)->AddVarint(900, 7);
  v1::UOp* node = graph.mutable_nodes(0);
  node->GetReflection()->MutableUnknownFields(node)->AddLengthDelimited(901, "from a newer client");
  EXPECT_EQ(HashGraph(graph)->Hex(), HashOf("0 CONST [] int32 1\n1 SINK [0]"));
}

TEST(HashGraph, EmptyGraph) {
  const auto hash = HashGraph(v1::Graph());
  ASSERT_FALSE(hash.ok());
  EXPECT_EQ(DetailOf(hash.status())->code(), v1::GRAPH_EMPTY);
}

TEST(HashGraph, ErrorsNameTheNode) {
  ExpectError(Parse("0 NOOP []\n1 ADD [0, 2] @\"sum\""), v1::SOURCE_OUT_OF_RANGE, 1,
              "node 1 ADD: source 2 is no node: the graph has 2");
  ExpectError(Parse("0 NOOP []\n1 NEG [4294967295]"), v1::SOURCE_OUT_OF_RANGE, 1,
              "node 1 NEG: source 4294967295 is no node: the graph has 2");
  ExpectError(Parse("0 NOOP [0]"), v1::GRAPH_CYCLE, 0,
              "node 0 NOOP: source 0 is not earlier than the node itself, 0; nodes go in topological order");
  ExpectError(Parse("0 NOOP [1]\n1 NOOP [0]"), v1::GRAPH_CYCLE, 0,
              "node 0 NOOP: source 1 is not earlier than the node itself, 0; nodes go in topological order");
  ExpectError(Parse("0 999 []"), v1::UNKNOWN_OP, 0, "node 0: op 999 is not known to this version of the protocol");
  ExpectError(Parse("0 OP_UNSPECIFIED []"), v1::UNKNOWN_OP, 0,
              "node 0: op 0 is not known to this version of the protocol");
  ExpectError(Parse("0 NOOP []\n1 CONST [] uint8 256"), v1::BAD_ARGUMENT, 1,
              "node 1 CONST: uint8 constant: 256 is not between 0 and 255");
  ExpectError(Parse("0 REDUCE [] 999 axes=(1)"), v1::BAD_ARGUMENT, 0,
              "node 0 REDUCE: op 999 of the reduction is unknown");
  const auto tagged = HashGraph(Parse("0 ADD [0] @\"sum\""));
  EXPECT_EQ(DetailOf(tagged.status())->tag(), "sum");
  EXPECT_EQ(DetailOf(tagged.status())->op(), "ADD");
  // An op without a name is named by its number.
  EXPECT_EQ(DetailOf(HashGraph(Parse("0 NOOP []\n1 999 [0]")).status())->op(), "999");
}

TEST(HashGraph, UnknownDialect) {
  v1::Graph graph = Parse("0 NOOP []");
  graph.set_dialect(static_cast<v1::Dialect>(9));
  const auto hash = HashGraph(graph);
  ASSERT_FALSE(hash.ok());
  EXPECT_EQ(DetailOf(hash.status())->code(), v1::BAD_ARGUMENT);
}

// Depth is a loop count, not a stack; shared sources are hashed once, so a
// graph with 2^100000 paths is as quick as any other.
TEST(HashGraph, DeepAndShared) {
  v1::Graph graph = Parse("0 CONST [] float32 1.0");
  for (uint32_t i = 0; i < 100000; ++i) {
    v1::UOp* node = graph.add_nodes();
    node->set_op(v1::ADD);
    node->add_src(i);
    node->add_src(i);
  }
  EXPECT_TRUE(HashGraph(graph).ok());
}

// It asks after some nodes, and in the middle of a long one, and ends with the answer as it is.
TEST(HashGraph, EndsOnceNobodyWantsIt) {
  v1::Graph many = Parse("0 CONST [] float32 1.0");
  for (uint32_t i = 0; i < 10'000; ++i) {
    v1::UOp* node = many.add_nodes();
    node->set_op(v1::NEG);
    node->add_src(i);
  }
  v1::Graph data;
  v1::UOp* node = data.add_nodes();
  node->set_op(v1::BINARY);
  node->set_data(std::string(8 << 20, 'x'));
  for (const v1::Graph& graph : {many, data}) {
    int asked = 0;
    const auto wanted = [&] { return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("enough"); };
    EXPECT_EQ(HashGraph(graph, wanted).status(), absl::CancelledError("enough"));
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(HashGraph(graph, [] { return absl::OkStatus(); }), HashGraph(graph));
  }
}

// What is hashed in steps has the digest of the whole.
TEST(HashGraph, LongDataIsHashedAsOne) {
  v1::Graph graph;
  v1::UOp* node = graph.add_nodes();
  node->set_op(v1::BINARY);
  std::string text((2 << 20) + 3, 'a');
  for (size_t i = 0; i < text.size(); i += 1000) text[i] = static_cast<char>(i / 1000);
  node->set_data(text);
  std::string encoding;
  const auto append_u32 = [&](uint32_t value) {
    for (int i = 0; i < 4; ++i) encoding.push_back(static_cast<char>(value >> (8 * i)));
  };
  append_u32(6);
  encoding += "BINARY";
  encoding.push_back(static_cast<char>(v1::UOp::kData));
  append_u32(static_cast<uint32_t>(text.size()));
  encoding += text;
  append_u32(0);
  EXPECT_EQ(HashNodes(graph)->front(), Blake3Of(encoding));
}

TEST(HashNodes, EqualSubGraphsHaveEqualDigests) {
  const auto digests = HashNodes(Parse("0 CONST [] int32 1\n1 CONST [] int32 1\n2 NEG [0]\n3 NEG [1]\n4 NOT [1]"));
  ASSERT_TRUE(digests.ok());
  EXPECT_EQ((*digests)[2], (*digests)[3]);
  EXPECT_NE((*digests)[3], (*digests)[4]);
}

TEST(GraphHash, Forms) {
  const GraphHash hash = *HashGraph(Parse("0 NOOP []"));
  EXPECT_EQ(GraphHash::FromHex(hash.Hex()), hash);
  EXPECT_EQ(GraphHash::FromBytes(hash.Bytes()), hash);
  EXPECT_EQ(GraphHash::FromBytes("short"), std::nullopt);
  EXPECT_EQ(GraphHash::FromHex(std::string(64, 'g')), std::nullopt);
  EXPECT_EQ(GraphHash::FromHex(hash.Hex() + "00"), std::nullopt);
  EXPECT_LT(GraphHash(), hash);
}

}  // namespace
}  // namespace kiln
