#include "server/logs/json_line.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/logs/call_log.h"

namespace kiln::server {
namespace {

const absl::Time kTime = absl::FromUnixMicros(1'700'000'000'123'456);

google::protobuf::Struct Parsed(const std::string& line) {
  google::protobuf::Struct parsed;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &parsed).ok()) << line;
  return parsed;
}

TEST(JsonLine, FieldsAndObjects) {
  const std::string line = JsonLine(kTime)
                               .Add("a", "b")
                               .Add("n", uint64_t{7})
                               .AddIfAny("none", "")
                               .Open("o")
                               .Add("x", uint64_t{1})
                               .Add("y", uint64_t{2})
                               .Close()
                               .Add("z", "")
                               .Take();
  EXPECT_EQ(line,
            "{\"time\":\"2023-11-14T22:13:20.123456Z\",\"a\":\"b\",\"n\":7,\"o\":{\"x\":1,\"y\":2},\"z\":\"\"}\n");
}

TEST(JsonLine, OddBytesAreEscaped) {
  EXPECT_EQ(JsonText("a\"b\\c"), "\"a\\u0022b\\u005cc\"");
  EXPECT_EQ(JsonText("x\r\n{\"event\":\"forged\"}"), "\"x\\u000d\\u000a{\\u0022event\\u0022:\\u0022forged\\u0022}\"");
  EXPECT_EQ(JsonText(absl::string_view("\0\x1b[2J\x7f", 6)), "\"\\u0000\\u001b[2J\\u007f\"");
  EXPECT_EQ(JsonText("µ € 🙂"), "\"µ € 🙂\"");
  // What ends a line for others, and what turns text round.
  EXPECT_EQ(JsonText("\xc2\x85\xe2\x80\xa8\xe2\x80\xae"), "\"\\u0085\\u2028\\u202e\"");
  // Longer than it must be, half of a pair, beyond the last, cut off, and a lone byte.
  EXPECT_EQ(JsonText("\xc0\xaf"), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(JsonText("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(JsonText("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(JsonText("\xe2\x82"), "\"\\ufffd\\ufffd\"");
  EXPECT_EQ(JsonText("\x80z"), "\"\\ufffdz\"");
}

TEST(JsonLine, ALongValueIsCut) {
  const std::string text = JsonText(std::string(10'000, 'x'));
  EXPECT_EQ(text, absl::StrCat("\"", std::string(kMaxValueBytes, 'x'), "…\""));
}

// Every pair of bytes gives one line that reads back as JSON.
TEST(JsonLine, WhateverTheBytes) {
  for (int first = 0; first < 256; ++first) {
    std::string all;
    for (int second = 0; second < 256; ++second) {
      const std::string line =
          JsonLine(kTime).Add("v", std::string{static_cast<char>(first), static_cast<char>(second), 'z'}).Take();
      EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
      absl::StrAppend(&all, all.empty() ? "{\"l\":[" : ",", line);
    }
    Parsed(all + "]}");
  }
}

TEST(CallLine, SaysWhereTheTimeWent) {
  CallParts parts;
  parts.device.Set("CPU:0");
  parts.Set(Part::kTurn, kTime, kTime + absl::Microseconds(300));
  const std::string line = CallLine({.method = "KernelService.Execute",
                                     .tenant = "alice",
                                     .peer = "ipv4:10.0.0.1:4711",
                                     .status = absl::StatusCode::kOk,
                                     .error = "",
                                     .begin = kTime,
                                     .end = kTime + absl::Microseconds(500),
                                     .received_bytes = 12,
                                     .sent_bytes = 34,
                                     .parts = parts});
  EXPECT_EQ(line,
            "{\"time\":\"2023-11-14T22:13:20.123956Z\",\"tenant\":\"alice\",\"peer\":\"ipv4:10.0.0.1:4711\","
            "\"method\":\"KernelService.Execute\",\"status\":\"OK\",\"device\":\"CPU:0\",\"received\":12,\"sent\":34,"
            "\"us\":{\"total\":500,\"turn\":300}}\n");
  EXPECT_EQ(Parsed(line).fields().at("us").struct_value().fields().at("turn").number_value(), 300);
}

}  // namespace
}  // namespace kiln::server
