#include "base/message_parts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {
namespace {

struct Counts {
  int nodes = 0, parts = 0;
  uint64_t packed = 0;
};

absl::Status Count(const std::string& bytes, Counts& counts) {
  return CountParts(bytes, *v1::Graph::descriptor(),
                    [&](FieldKind kind, const google::protobuf::Descriptor* type, uint64_t length) {
                      if (type == v1::UOp::descriptor()) ++counts.nodes;
                      if (kind == FieldKind::kPart) ++counts.parts;
                      counts.packed += length;
                      return absl::OkStatus();
                    });
}

v1::ErrorCode Refused(const std::string& bytes) {
  Counts counts;
  return DetailOf(Count(bytes, counts)).value_or(v1::ErrorDetail()).code();
}

TEST(MessageParts, AreThoseOfTheMessage) {
  v1::Graph graph;
  for (int i = 0; i < 3; ++i) graph.add_nodes()->set_op(v1::CONST);
  for (const uint32_t source : {0, 1}) graph.mutable_nodes(2)->add_src(source);
  graph.mutable_nodes(1)->mutable_buffer()->set_slot(7);
  Counts counts;
  ASSERT_TRUE(Count(graph.SerializeAsString(), counts).ok());
  EXPECT_EQ(counts.nodes, 3);
  EXPECT_EQ(counts.parts, 0);
  EXPECT_EQ(counts.packed, 2u);
}

TEST(MessageParts, WhatNobodyKnowsIsOne) {
  Counts counts;
  ASSERT_TRUE(Count(std::string("\xfa\x7f\x01x\xf8\x7f\x05\x0a\x00", 9), counts).ok());
  EXPECT_EQ(counts.parts, 2);
  EXPECT_EQ(counts.nodes, 1);
}

TEST(MessageParts, TheFirstErrorEndsIt) {
  int asked = 0;
  const absl::Status status = CountParts(std::string("\x0a\x00\x0a\x00", 4), *v1::Graph::descriptor(),
                                         [&asked](FieldKind, const google::protobuf::Descriptor*, uint64_t) {
                                           ++asked;
                                           return absl::AbortedError("enough");
                                         });
  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(asked, 1);
}

TEST(MessageParts, WhatIsNoMessageIsRefused) {
  for (const std::string& bytes : {std::string("\x0a\x05xx", 4), std::string("\x0a\xff\xff\xff\xff\x0f", 6),
                                   std::string("\x7b\x0a\x00\x7c", 4), std::string("\x7c", 1), std::string("\x08", 1)})
    EXPECT_EQ(Refused(bytes), v1::MALFORMED_MESSAGE) << bytes.size();
  EXPECT_EQ(Refused(""), v1::ERROR_CODE_UNSPECIFIED);
}

}  // namespace
}  // namespace kiln
