// Quotas of what is under way and of what passes: requests, bytes, seconds of compilers and devices.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/long_run.h"
#include "tests/e2e/submit/submit_client.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

constexpr int64_t kManyFloats = 1 << 20;

// x + 1 of what slot 0 has, by value: an answer of 4 MiB to a request of a hundred bytes.
v1::ExecuteRequest ManyByValue(uint64_t handle) {
  v1::ExecuteRequest request;
  *request.mutable_graph() = GraphOf(absl::StrCat("0 CONST [] weakint ", kManyFloats, R"(
    1 PARAM : float32 [0] slot=0
    2 CONST [] float32 1.0
    3 ADD [1, 2]
    4 TUPLE [3]
  )"));
  AddBuffer(request, 0, handle);
  request.set_result_mode(v1::RESULT_INLINE);
  return request;
}

TEST_F(QuotaTest, HostBytesOfRequestsAndAnswers) {
  StartWith("host_bytes: 100000");
  const uint64_t handle = *AllocateFloats(*a_, kManyFloats);
  // A request.
  v1::ExecuteRequest large = AddOne(v1::RESULT_HANDLES);
  large.mutable_arguments(0)->mutable_tensor()->mutable_data()->resize(100'000);
  const absl::Status status = Execute(*a_, large).status();
  const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::QUOTA_EXCEEDED) << status;
  EXPECT_EQ(detail.limit(), "host_bytes");
  EXPECT_EQ(detail.limit_value(), 100'000u);
  EXPECT_GT(detail.used(), 100'000u);
  EXPECT_EQ(detail.retry_after_ms(), 100u);
  EXPECT_EQ(CodeOf(Execute(*b_, large).status()), v1::BUFFER_SIZE_MISMATCH);
  // A message of an upload.
  EXPECT_EQ(CodeOf(Upload(*a_, handle, std::string(200'000, 'x'))), v1::QUOTA_EXCEEDED);
  EXPECT_TRUE(Upload(*a_, handle, std::string(200'000, 'x'), /*offset=*/0, /*chunk=*/10'000).ok());
  // An answer, before it is made.
  EXPECT_EQ(CodeOf(Execute(*a_, ManyByValue(handle)).status()), v1::QUOTA_EXCEEDED);
  EXPECT_EQ(CodeOf(Download(*a_, handle).status()), v1::QUOTA_EXCEEDED);
  EXPECT_EQ(Download(*a_, handle, 0, 3)->size(), 3u);
  SubmitClient stream(*a_);
  stream.Allocate(1, 1 << 20);
  stream.Read(1);
  EXPECT_EQ(stream.FailureCode(), v1::QUOTA_EXCEEDED);
  stream.Read(1, 0, 16);
  EXPECT_TRUE(stream.Next().has_value());
  stream.Drop();
  EXPECT_TRUE(Free(*a_, {handle}).ok());
  EXPECT_TRUE(AllReturns());
}

// Clients that ask by a hundred bytes for answers of megabytes, and read none.
TEST_F(QuotaTest, AnswersThatNobodyReadsAreBounded) {
  constexpr uint64_t kLimit = 20 << 20;
  StartWith(absl::StrCat("host_bytes: ", kLimit));
  std::vector<std::unique_ptr<SubmitClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<SubmitClient>(*a_));
    clients.back()->Allocate(1, kManyFloats * sizeof(float));
    clients.back()->Execute(ManyByValue(1), {});
  }
  // Two take 16 MiB, so a third finds no room, and with some it is refused.
  EXPECT_TRUE(Eventually([&] { return account().used(Quota::kHostBytes) >= 16 << 20; }));
  EXPECT_TRUE(Eventually([&] { return account().used(Quota::kInFlight) == 20; }));  // the connections
  EXPECT_LE(account().used(Quota::kHostBytes), kLimit);
  EXPECT_TRUE(Execute(*b_, AddOne(v1::RESULT_INLINE)).ok());
  for (const auto& client : clients) client->Drop();
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, RequestsInFlight) {
  StartWith("requests_in_flight: 2");
  SubmitClient one(*a_);
  one.Fence();
  EXPECT_TRUE(one.Next().has_value());
  SubmitClient two(*a_);
  ASSERT_TRUE(Eventually([this] { return account().used(Quota::kInFlight) == 2; }));
  const absl::Status status = AllocateBytes(*a_, 8).status();
  ExpectExceeded(status, Quota::kInFlight, 2, 3);
  EXPECT_EQ(DetailOf(status)->retry_after_ms(), 100u);
  EXPECT_TRUE(AllocateBytes(*b_, 8).ok());
  one.Drop();
  two.Drop();
  EXPECT_TRUE(AllReturns());
  EXPECT_TRUE(AllocateBytes(*a_, 8).ok());
}

TEST_F(QuotaTest, AStreamKeepsToTheCommandsInFlight) {
  StartWith("requests_in_flight: 4");
  SubmitClient stream(*a_);
  stream.Allocate(1, 8);
  for (int i = 0; i < 200; ++i) stream.Fill(1, "x");
  stream.Fence();
  EXPECT_TRUE(stream.Next().has_value());
  stream.Drop();
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, RequestsPerSecond) {
  StartWith("requests_per_second: 5");
  absl::Status status;
  // Of five and those that the time makes room for.
  for (int i = 0; i < 1000 && status.ok(); ++i) status = AllocateBytes(*a_, 8).status();
  ExpectFull(status, Quota::kRequests, 5);
  EXPECT_LE(DetailOf(status)->retry_after_ms(), 201u);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(AllocateBytes(*b_, 8).ok());
}

TEST_F(QuotaTest, AStreamIsReadNoFaster) {
  StartWith("requests_per_second: 50");
  const absl::Time begin = absl::Now();
  SubmitClient stream(*a_);
  for (int i = 0; i < 75; ++i) stream.Fence();
  for (int i = 0; i < 75; ++i) ASSERT_TRUE(stream.Next().has_value()) << i;
  // All are answered; those over the first fifty had to wait for their turn.
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(400));
}

TEST_F(QuotaTest, UploadBytesPerSecond) {
  StartWith("upload_bytes_per_second: 10000");
  const uint64_t of_a = *AllocateBytes(*a_, 1 << 20), of_b = *AllocateBytes(*b_, 1 << 20);
  // One that is larger than the limit is taken whole, and owed.
  EXPECT_TRUE(Upload(*a_, of_a, std::string(1 << 20, 'x')).ok());
  const absl::Status status = Upload(*a_, of_a, "y");
  ExpectFull(status, Quota::kUploadBytes, 10'000);
  EXPECT_GT(DetailOf(status)->retry_after_ms(), 90'000u);
  v1::ExecuteRequest large = AddOne(v1::RESULT_HANDLES);
  large.mutable_arguments(0)->mutable_tensor()->mutable_data()->resize(5'000);
  ExpectFull(Execute(*a_, large).status(), Quota::kUploadBytes, 10'000);
  // What brings nothing goes on.
  EXPECT_TRUE(AllocateBytes(*a_, 8).ok());
  EXPECT_TRUE(Upload(*b_, of_b, std::string(1 << 20, 'x')).ok());
  EXPECT_TRUE(Upload(*b_, of_b, "y").ok());
}

TEST_F(QuotaTest, LoadBytesPerSecond) {
  const std::string file = "quota.npy";
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000,), }";
  header.resize(117, ' ');
  header += '\n';
  std::ofstream(absl::StrCat(testing::TempDir(), "/", file))
      << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << std::string(4000, 'x');
  StartWith("load_bytes_per_second: 10");
  const auto load = [&file](Stubs& stubs) {
    v1::LoadRequest request;
    request.set_file(file);
    v1::LoadResponse response;
    return Call(*stubs.buffer, &v1::BufferService::Stub::Load, request, response);
  };
  EXPECT_EQ(load(*a_), absl::OkStatus());
  ExpectFull(load(*a_), Quota::kLoadBytes, 10);
  EXPECT_TRUE(load(*b_).ok());
  EXPECT_TRUE(load(*b_).ok());
  server_->engine().sessions().EndAll();
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, CompilesAtOnceAndTheirSeconds) {
  StartWith("compiles_at_once: 1 compile_seconds_per_minute: 1");
  ASSERT_TRUE(Compile(*a_, GraphOf(kAddOne)).ok());
  // It took some of the second.
  EXPECT_EQ(account().used(Quota::kCompileSeconds), 1u);
  EXPECT_EQ(account().used(Quota::kCompiles), 0u);
  {
    const Charge another = *Hold(&account(), Quota::kCompiles, 1);
    ExpectExceeded(Compile(*a_, GraphOf(kReplace)).status(), Quota::kCompiles, 1, 2);
    // What is there needs no compile.
    EXPECT_TRUE(Execute(*a_, AddOne(v1::RESULT_INLINE)).ok());
    EXPECT_TRUE(Compile(*b_, GraphOf(kReplace)).ok());
  }
  account().Owe(Quota::kCompileSeconds, 2);
  ExpectFull(Compile(*a_, GraphOf(kReplace)).status(), Quota::kCompileSeconds, 1);
  v1::ExplainRequest explain;
  *explain.mutable_graph() = GraphOf(kAddOne);
  v1::ExplainResponse explained;
  ExpectFull(Call(*a_->debug, &v1::DebugService::Stub::Explain, explain, explained), Quota::kCompileSeconds, 1);
  EXPECT_TRUE(Execute(*a_, AddOne(v1::RESULT_INLINE)).ok());
  EXPECT_TRUE(Compile(*b_, GraphOf(kAddOneInPlace)).ok());
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, SearchSeconds) {
  StartWith("search_seconds_per_minute: 1");
  v1::CompileRequest request;
  *request.mutable_graph() = GraphOf(kAddOne);
  request.mutable_options()->set_beam(1);
  request.mutable_options()->set_beam_budget_ms(50);
  ASSERT_TRUE(Compile(*a_, request).ok());
  EXPECT_EQ(account().used(Quota::kSearchSeconds), 1u);
  account().Owe(Quota::kSearchSeconds, 2);
  *request.mutable_graph() = GraphOf(kReplace);
  ExpectFull(Compile(*a_, request).status(), Quota::kSearchSeconds, 1);
  EXPECT_TRUE(Compile(*b_, request).ok());
  EXPECT_TRUE(AllReturns());
}

TEST_F(QuotaTest, DeviceSecondsAlsoOfWhatIsStopped) {
  StartWith("device_seconds_per_minute: 1");
  v1::ExecuteRequest long_run;
  *long_run.mutable_graph() = Sines();
  AddBuffer(long_run, 0, *AllocateFloats(*a_, kLongElements));
  const absl::Status compiled = Compile(*a_, Sines()).status();
  ASSERT_TRUE(compiled.ok()) << compiled;
  // Runs that are cancelled count for as long as they ran.
  absl::Status status;
  for (int i = 0; i < 100 && CodeOf(status) != v1::QUOTA_EXCEEDED; ++i) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer secret of a");
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Milliseconds(300)));
    v1::ExecuteResponse response;
    status = server::FromGrpc(stubs_->kernel->Execute(&context, long_run, &response));
  }
  ExpectFull(status, Quota::kDeviceSeconds, 1);
  EXPECT_TRUE(Execute(*b_, AddOne(v1::RESULT_INLINE)).ok());
  server_->engine().sessions().EndAll();
  EXPECT_TRUE(AllReturns());
}

}  // namespace
}  // namespace kiln::e2e
