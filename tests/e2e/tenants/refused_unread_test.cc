// What a tenant has no room for is refused before it is read: here, what is asked for is no message at all.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/e2e/long_run.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

constexpr char kNoMessage[] = "\xff\xff";
constexpr char kCompile[] = "/kiln.v1.KernelService/Compile", kExecute[] = "/kiln.v1.KernelService/Execute";

class RefusedUnreadTest : public QuotaTest {
 protected:
  static void ExpectRead(const absl::Status& status) {
    EXPECT_EQ(CodeOf(status), v1::MALFORMED_MESSAGE) << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
};

TEST_F(RefusedUnreadTest, WhatPasses) {
  StartWith("requests_per_second: 100 upload_bytes_per_second: 1000");
  const std::string large(5000, '\xff');
  ExpectRead(CallRaw(*a_, kExecute, kNoMessage));
  account().Owe(Quota::kUploadBytes, 100'000);
  ExpectFull(CallRaw(*a_, kExecute, large), Quota::kUploadBytes, 1000);
  ExpectRead(CallRaw(*a_, kExecute, kNoMessage));
  ExpectRead(CallRaw(*b_, kExecute, large));
  account().Owe(Quota::kRequests, 10'000);
  ExpectFull(CallRaw(*a_, kExecute, kNoMessage), Quota::kRequests, 100);
  ExpectRead(CallRaw(*b_, kExecute, kNoMessage));
  EXPECT_TRUE(AllReturns());
}

TEST_F(RefusedUnreadTest, WhatIsHeld) {
  StartWith("requests_in_flight: 4 host_bytes: 100000");
  {
    // There is room for a short one and its answer.
    const Charge others = *Hold(&account(), Quota::kHostBytes, 95'500);
    ExpectExceeded(CallRaw(*a_, kCompile, std::string(5000, '\xff')), Quota::kHostBytes, 100'000, 100'500);
    ExpectRead(CallRaw(*a_, kCompile, kNoMessage));
  }
  ASSERT_TRUE(AllReturns());
  const Charge others = *Hold(&account(), Quota::kInFlight, 4);
  ExpectExceeded(CallRaw(*a_, kCompile, kNoMessage), Quota::kInFlight, 4, 5);
  ExpectRead(CallRaw(*b_, kCompile, kNoMessage));
}

TEST_F(RefusedUnreadTest, WhatARunNeeds) {
  StartWith("device_seconds_per_minute: 1");
  const char* const runs[] = {kExecute, "/kiln.v1.KernelService/ReplaySequence",
                              "/inference.GRPCInferenceService/ModelInfer"};
  for (const char* const run : runs) ExpectRead(CallRaw(*a_, run, kNoMessage));
  account().Owe(Quota::kDeviceSeconds, 2);
  for (const char* const run : runs) {
    const absl::Status status = CallRaw(*a_, run, kNoMessage);
    ExpectFull(status, Quota::kDeviceSeconds, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << run;
    ExpectRead(CallRaw(*b_, run, kNoMessage));
  }
  // What does not run goes on.
  ExpectRead(CallRaw(*a_, kCompile, kNoMessage));
  EXPECT_TRUE(AllocateBytes(*a_, 8).ok());
}

TEST_F(RefusedUnreadTest, WhatACompilationNeeds) {
  StartWith("compile_seconds_per_minute: 1");
  const char* const compilations[] = {"/kiln.v1.KernelService/Gradient", "/kiln.v1.DebugService/Explain"};
  for (const char* const compilation : compilations) ExpectRead(CallRaw(*a_, compilation, kNoMessage));
  account().Owe(Quota::kCompileSeconds, 2);
  for (const char* const compilation : compilations) {
    ExpectFull(CallRaw(*a_, compilation, kNoMessage), Quota::kCompileSeconds, 1);
    ExpectRead(CallRaw(*b_, compilation, kNoMessage));
  }
  // A program that is there needs none.
  ExpectRead(CallRaw(*a_, kCompile, kNoMessage));
  EXPECT_EQ(account().used(Quota::kCompiles), 0u);
}

TEST_F(RefusedUnreadTest, ACommandOfAStream) {
  StartWith("requests_in_flight: 2");
  const auto context = NewContext();
  const grpc::internal::RpcMethod method("/kiln.v1.KernelService/Submit", grpc::internal::RpcMethod::BIDI_STREAMING);
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  const std::unique_ptr<Stream> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(a_->channel.get(), method,
                                                                                            context.get()));
  const auto send = [&stream](const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return stream->Write(grpc::ByteBuffer(&slice, 1));
  };
  v1::SubmitRequest hello;
  hello.mutable_hello();
  ASSERT_TRUE(send(hello.SerializeAsString()));
  grpc::ByteBuffer welcome;
  ASSERT_TRUE(stream->Read(&welcome));
  const Charge another = *Hold(&account(), Quota::kInFlight, 1);  // beside the stream itself
  ASSERT_TRUE(send(kNoMessage));
  stream->WritesDone();
  ExpectExceeded(server::FromGrpc(stream->Finish()), Quota::kInFlight, 2, 3);
}

}  // namespace
}  // namespace kiln::e2e
