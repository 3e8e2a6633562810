#include "client/cpp/served/infer_stream.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "inference/grpc_service.grpc.pb.h"

namespace kiln::client {
namespace {

using Request = inference::ModelInferRequest;
using Response = inference::ModelStreamInferResponse;
using ServerStream = grpc::ServerReaderWriter<Response, Request>;

Response Answer(const Request& request) {
  Response response;
  auto& said = *response.mutable_infer_response();
  said.set_id(request.id());
  auto& output = *said.add_outputs();
  output.set_name("y");
  output.set_datatype("UINT8");
  output.add_shape(static_cast<int64_t>(request.raw_input_contents(0).size()));
  said.add_raw_output_contents(request.raw_input_contents(0));
  return response;
}

// Says back what it hears, but for what some texts ask for.
class Echo final : public inference::GRPCInferenceService::Service {
 public:
  grpc::Status ModelStreamInfer(grpc::ServerContext*, ServerStream* stream) override {
    Request request;
    while (stream->Read(&request)) {
      last = request;
      const std::string& text = request.raw_input_contents(0);
      if (text == "end") return grpc::Status::OK;
      if (text == "fail") return {grpc::StatusCode::UNAVAILABLE, "no more"};
      if (text == "silence") continue;
      Response response = Answer(request);
      if (text == "bad") response.set_error_message("it is bad");
      if (absl::StrContains(text, "another")) response.mutable_infer_response()->set_id("another");
      if (text == "bad another") response.set_error_message("it is bad");
      if (text == "bad without") {
        response.set_error_message("it is bad");
        response.clear_infer_response();
      }
      if (text == "without") response.mutable_infer_response()->clear_id();
      stream->Write(response);
      if (text == "twice") stream->Write(response);
      if (text == "more") {
        response.mutable_infer_response()->set_id("more");
        stream->Write(response);
      }
    }
    return grpc::Status::OK;
  }

  Request last;
};

class InferStreamTest : public testing::Test {
 protected:
  InferStreamTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&echo_);
    server_ = builder.BuildAndStart();
    connection_ = std::make_shared<Connection>(absl::StrCat("127.0.0.1:", port), ClientOptions());
  }

  static std::future<absl::StatusOr<NamedTensors>> Ask(InferStream& stream, const std::string& text,
                                                       InferOptions options = {}) {
    NamedTensors inputs;
    inputs["x"] = {v1::UINT8, {static_cast<int64_t>(text.size())}, text};
    return stream.Infer(std::move(inputs), std::move(options));
  }

  static v1::ErrorCode CodeOf(const absl::Status& status) {
    return DetailOf(status).value_or(v1::ErrorDetail()).code();
  }

  Echo echo_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<Connection> connection_;
};

TEST_F(InferStreamTest, AnswersAreInTheOrderOfRequestsAndOneThatFailsEndsNothing) {
  InferStream stream(connection_, "m", "7");
  std::vector<std::future<absl::StatusOr<NamedTensors>>> answers;
  const char* const texts[] = {"a", "bad", "bad without", "b"};
  for (const char* text : texts) answers.push_back(Ask(stream, text));
  EXPECT_EQ(answers[0].get()->at("y").bytes, "a");
  const absl::Status bad = answers[1].get().status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(bad.message(), "it is bad");
  EXPECT_EQ(answers[2].get().status(), absl::UnknownError("it is bad"));
  EXPECT_EQ(answers[3].get()->at("y").bytes, "b");
  EXPECT_TRUE(stream.Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Ask(stream, "c").get().status()));
  EXPECT_TRUE(stream.Close().ok());
  EXPECT_EQ(echo_.last.model_version(), "7");
  EXPECT_EQ(connection_->traffic()["ModelStreamInfer"].calls, 4u);
}

TEST_F(InferStreamTest, ATimeoutTravelsWithItsRequest) {
  InferStream stream(connection_, "m", "");
  InferOptions options;
  options.timeout = absl::Milliseconds(1500);
  EXPECT_TRUE(Ask(stream, "a", options).get().ok());
  ASSERT_TRUE(stream.Close().ok());
  EXPECT_EQ(echo_.last.parameters().at("timeout").int64_param(), 1500000);
}

TEST_F(InferStreamTest, AStreamThatFailsIsToldToAllThatWait) {
  InferStream stream(connection_, "m", "");
  auto silent = Ask(stream, "silence"), failed = Ask(stream, "fail");
  EXPECT_TRUE(absl::IsUnavailable(silent.get().status()));
  EXPECT_TRUE(absl::IsUnavailable(failed.get().status()));
  EXPECT_TRUE(absl::IsUnavailable(stream.Close()));
  EXPECT_TRUE(absl::IsFailedPrecondition(Ask(stream, "a").get().status()));
}

TEST_F(InferStreamTest, AServerThatEndsBeforeItHasAnsweredLies) {
  InferStream stream(connection_, "m", "");
  EXPECT_EQ(CodeOf(Ask(stream, "end").get().status()), v1::INTERNAL_FAULT);
  EXPECT_EQ(CodeOf(stream.Close()), v1::INTERNAL_FAULT);
}

TEST_F(InferStreamTest, AnAnswerThatNobodyAskedForEndsTheStream) {
  InferStream stream(connection_, "m", "");
  EXPECT_TRUE(Ask(stream, "more").get().ok());
  const absl::Status why = stream.Close();
  EXPECT_EQ(CodeOf(why), v1::INTERNAL_FAULT) << why;
  EXPECT_TRUE(absl::IsInternal(why));
}

TEST_F(InferStreamTest, AnAnswerWhoseTurnItIsNotEndsTheStream) {
  for (const char* text : {"another", "bad another", "without"}) {
    InferStream stream(connection_, "m", "");
    auto silent = Ask(stream, "silence"), asked = Ask(stream, text);
    for (auto* answer : {&silent, &asked}) EXPECT_EQ(CodeOf(answer->get().status()), v1::INTERNAL_FAULT) << text;
    EXPECT_EQ(CodeOf(stream.Close()), v1::INTERNAL_FAULT) << text;
  }
}

TEST_F(InferStreamTest, AnAnswerThatComesTwiceDoesNoHarm) {
  InferStream stream(connection_, "m", "");
  auto twice = Ask(stream, "twice"), next = Ask(stream, "b");
  EXPECT_TRUE(twice.get().ok());
  EXPECT_EQ(next.get()->at("y").bytes, "b");
  EXPECT_TRUE(stream.Close().ok());
}

TEST_F(InferStreamTest, AServerThatHangsIsWaitedForAsLongAsTheStreamMayTake) {
  InferStream stream(connection_, "m", "", absl::Milliseconds(200));
  EXPECT_TRUE(absl::IsDeadlineExceeded(Ask(stream, "silence").get().status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream.Close()));
}

TEST_F(InferStreamTest, WhoGivesItUpHearsOfIt) {
  InferStream stream(connection_, "m", "");
  auto silent = Ask(stream, "silence");
  stream.Cancel();
  EXPECT_TRUE(absl::IsCancelled(silent.get().status()));
  EXPECT_TRUE(absl::IsCancelled(stream.Close()));
  auto other = std::make_unique<InferStream>(connection_, "m", "");
  silent = Ask(*other, "silence");
  other.reset();
  EXPECT_TRUE(absl::IsCancelled(silent.get().status()));
}

}  // namespace
}  // namespace kiln::client
