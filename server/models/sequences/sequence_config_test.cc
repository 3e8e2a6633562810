#include "server/models/sequences/sequence_config.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

constexpr char kState[] = R"(state { input_name: "cache" output_name: "next" })";

absl::StatusOr<std::optional<SequenceConfig>> Parse(const std::string& batching) {
  return ParseSequenceConfig(absl::StrCat("sequence_batching {", batching, "}"));
}

void ExpectRefused(const std::string& batching, v1::ErrorCode code, const std::string& field, const std::string& part) {
  const auto parsed = Parse(batching);
  const auto detail = DetailOf(parsed.status());
  ASSERT_TRUE(detail.has_value()) << batching;
  EXPECT_EQ(detail->code(), code) << parsed.status();
  EXPECT_EQ(detail->field(), field) << parsed.status();
  EXPECT_NE(parsed.status().message().find(part), absl::string_view::npos) << parsed.status();
}

TEST(SequenceConfigs, AFolderMadeForTritonIsRead) {
  const auto parsed = ParseSequenceConfig(R"(
      name: "gpt" backend: "onnxruntime" max_batch_size: 0
      input [ { name: "token" data_type: TYPE_INT32 dims: [ -1 ] reshape { shape: [ ] } } ]
      instance_group [ { count: 2 kind: KIND_GPU } ]
      sequence_batching {
        max_sequence_idle_microseconds: 5000000
        oldest { max_candidate_sequences: 4 max_queue_delay_microseconds: 200 }
        state [
          { input_name: "cache" output_name: "next" data_type: TYPE_FP32 dims: [ 2, 64 ]
            initial_state { data_type: TYPE_FP32 dims: [ 2, 64 ] zero_data: true name: "zeros" } },
          { input_name: "at" output_name: "after" data_type: TYPE_INT32 dims: [ 1 ] }
        ]
      })");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const SequenceConfig& config = **parsed;
  ASSERT_EQ(config.states.size(), 2u);
  EXPECT_EQ(config.states[0].input, "cache");
  EXPECT_EQ(config.states[1].output, "after");
  EXPECT_EQ(config.max_sequences, 4u);
  EXPECT_EQ(config.idle, absl::Seconds(5));
  EXPECT_EQ(config.queue_delay, absl::Microseconds(200));
}

TEST(SequenceConfigs, WhatIsLeftOutHasADefault) {
  const auto parsed = Parse(kState);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)->max_sequences, 16u);
  EXPECT_EQ((*parsed)->idle, absl::Seconds(60));
  EXPECT_EQ((*parsed)->queue_delay, absl::Milliseconds(1));
}

TEST(SequenceConfigs, AFileWithoutSequencesSaysNothing) {
  for (const char* text :
       {"", "name: 'a' dynamic_batching { }", "# nothing\n", "# sequence_batching {",
        "name: 'sequence_batching { \\' }'", "parameters { key: 'a' value { sequence_batching { } } }"}) {
    const auto parsed = ParseSequenceConfig(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_FALSE(parsed->has_value()) << text;
  }
  EXPECT_FALSE(ReadSequenceConfig("")->has_value());
}

TEST(SequenceConfigs, WhatIsWrongIsNamed) {
  const std::string at = "sequence_batching.";
  ExpectRefused("", v1::BAD_ARGUMENT, at + "state", "name the input");
  ExpectRefused(absl::StrCat(kState, kState), v1::BAD_ARGUMENT, at + "state.input_name", "\"cache\" comes twice");
  ExpectRefused(absl::StrCat(kState, R"(state { input_name: "b" output_name: "next" })"), v1::BAD_ARGUMENT,
                at + "state.output_name", "\"next\" comes twice");
  for (const char* text : {"sequence_batching < >", "sequence_batching [ { } ]", "sequence_batching: 5"}) {
    EXPECT_EQ(DetailOf(ParseSequenceConfig(text).status())->field(), "sequence_batching") << text;
  }
  for (const char* number : {"-1", "4097"}) {
    ExpectRefused(absl::StrCat(kState, "oldest { max_candidate_sequences:", number, "}"), v1::BAD_ARGUMENT,
                  at + "oldest.max_candidate_sequences", absl::StrCat(number, " is not from 1 to 4096"));
  }
  ExpectRefused(absl::StrCat(kState, "max_sequence_idle_microseconds: 18446744073709551615"), v1::BAD_ARGUMENT,
                at + "max_sequence_idle_microseconds", "is not from 1");
  ExpectRefused("state { input_name: 5 }", v1::BAD_ARGUMENT, "sequence_batching", "line 1, column");
  ExpectRefused("state { no_such: 5 }", v1::BAD_ARGUMENT, "sequence_batching", "no field named \"no_such\"");
  ExpectRefused("oldest {", v1::BAD_ARGUMENT, "sequence_batching", "from { to }");
  ExpectRefused("}}", v1::BAD_ARGUMENT, "config.pbtxt", "closes what was not opened");
  ExpectRefused("} sequence_batching {", v1::BAD_ARGUMENT, "sequence_batching", "comes twice");
}

TEST(SequenceConfigs, WhatIsNotServedIsNamed) {
  const std::string at = "sequence_batching.";
  for (const auto& [text, field] :
       {std::pair(
            "control_input { name: 'START' control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] }",
            "control_input"),
        std::pair("iterative_sequence: true", "iterative_sequence"),
        std::pair("direct { minimum_slot_utilization: 0.5 }", "direct.minimum_slot_utilization"),
        std::pair("oldest { preferred_batch_size: 4 }", "oldest.preferred_batch_size"),
        std::pair("oldest { preserve_ordering: true }", "oldest.preserve_ordering")}) {
    ExpectRefused(absl::StrCat(kState, text), v1::NOT_IMPLEMENTED, at + field, "not served");
  }
  ExpectRefused("state { input_name: 'a' output_name: 'b' initial_state { data_file: 'x' } }", v1::NOT_IMPLEMENTED,
                at + "state.initial_state.data_file", "begins with zeros");
  ExpectRefused("state { input_name: 'a' output_name: 'b' use_growable_memory: true }", v1::NOT_IMPLEMENTED,
                at + "state.use_growable_memory", "one size");
}

TEST(SequenceConfigs, AFileIsReadToALimit) {
  const std::string path = testing::TempDir() + "/config.pbtxt";
  std::ofstream(path) << "sequence_batching {" << kState << "}" << std::string(60 << 10, ' ');
  EXPECT_EQ((*ReadSequenceConfig(path))->states[0].input, "cache");
  std::ofstream(path) << "label_filename: '" << std::string(1 << 19, 'a') << "'";
  EXPECT_FALSE(ReadSequenceConfig(path)->has_value());
  std::ofstream(path) << std::string((1 << 20) + 1, ' ');
  EXPECT_EQ(DetailOf(ReadSequenceConfig(path).status())->limit(), "config.pbtxt");
  std::remove(path.c_str());
  EXPECT_EQ(ReadSequenceConfig(path).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace kiln::server
