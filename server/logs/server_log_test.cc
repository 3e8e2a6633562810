#include "server/logs/server_log.h"

#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <string>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace kiln::server {
namespace {

constexpr char kBegin[] = R"({"time":"1970-01-01T00:00:01.000000Z","level":"info")";

std::string AsJson(absl::string_view event) { return EventAsJson(absl::FromUnixSeconds(1), "info", event); }

TEST(ServerLogTest, AnEventIsAnObject) {
  EXPECT_EQ(AsJson("event=serving listen=127.0.0.1:0 port=40112"),
            std::string(kBegin) + R"(,"event":"serving","listen":"127.0.0.1:0","port":40112})"
                                  "\n");
}

TEST(ServerLogTest, NumbersAndTruthAreWhatTheyLookLikeAndTextsAreNot) {
  EXPECT_EQ(AsJson(R"(a=-1.5 b=007 c=true d="12" e=1. f=12345678901234567890 graph=1234 g=)"),
            std::string(kBegin) + R"(,"a":-1.5,"b":"007","c":true,"d":"12","e":"1.","f":"12345678901234567890",)"
                                  R"("graph":"1234","g":""})"
                                  "\n");
}

TEST(ServerLogTest, QuotationsAreReadAsTheyWereWritten) {
  EXPECT_EQ(AsJson(R"(event=x reason="a \"b\" c=1\nd" n=2)"),
            std::string(kBegin) + R"(,"event":"x","reason":"a \u0022b\u0022 c=1\u000ad","n":2})"
                                  "\n");
}

TEST(ServerLogTest, OtherWordsAreTheMessage) {
  EXPECT_EQ(AsJson("it is  full n=1 really"), std::string(kBegin) + R"(,"n":1,"message":"it is full really"})"
                                                                    "\n");
}

TEST(ServerLogTest, AKeyIsThereOnce) {
  EXPECT_EQ(AsJson("event=model name=a level=error n=1 n=2"),
            std::string(kBegin) + R"(,"event":"model","name":"a","n":1,"message":"level=error n=2"})"
                                  "\n");
  EXPECT_EQ(AsJson(R"(message="a" b)"), std::string(kBegin) + R"(,"message":"a","more":"b"})"
                                                              "\n");
}

// Of whatever bytes.
TEST(ServerLogTest, EachLineIsJson) {
  for (const char* event : {"", " ", "=", "a=\"", "a=\"\\", "a=\"\\q\"", "\"a\"=1", "a b=\xff\xfe c=\"\x01\"",
                            "a=\n b=\r", "a==b", "a=\"b\"c=1"}) {
    const std::string line = AsJson(event);
    google::protobuf::Struct parsed;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &parsed).ok()) << line;
    EXPECT_EQ(line.find('\n'), line.size() - 1);
  }
}

TEST(ServerLogTest, GrpcsLinesAreInIt) {
  ::testing::internal::CaptureStderr();
  const auto log = MakeServerLog("info", "json");
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // as where gRPC is in use, and nothing else is said
  gpr_log("somewhere/in/grpc.cc", 7, GPR_LOG_SEVERITY_ERROR, "a \"bad\" %s", "thing");
  log->warn("event=own n={}", 3);
  log->flush();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(R"("level":"error","event":"grpc","source":"grpc.cc:7","message":"a \u0022bad\u0022 thing"})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("level":"warning","event":"own","n":3})"), std::string::npos) << text;
}

}  // namespace
}  // namespace kiln::server
