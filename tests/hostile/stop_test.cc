// Work that does not want to end: kernels that run for minutes once they have begun, and programs
// that seem cheap until they are given a large bound. A stop has to take effect whatever a kernel
// is in the middle of, and no thread that answers others may be caught in one.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/graph/graph_text.h"
#include "server/engine/engine.h"
#include "tests/e2e/long_run.h"
#include "tests/support/endless.h"

namespace kiln::e2e {
namespace {

// Far more than a stop takes on a busy machine, and far less than these run.
constexpr absl::Duration kSoon = absl::Seconds(1);

class StopTest : public ServerTest {
 protected:
  runtime::hal::Device& TheDevice() { return *server_->engine().devices()[0]; }

  // Until the device is in the middle of a launch that has begun after `launches`.
  void AwaitLaunch(uint64_t launches) {
    EXPECT_TRUE(Eventually([&] { return TheDevice().stats().launches > launches; }));
  }

  void ExpectIdleSoon() {
    const absl::Time stopped = absl::Now();
    EXPECT_TRUE(Eventually([&] { return TheDevice().queue().depth() == 0; }));
    EXPECT_LT(absl::Now() - stopped, kSoon);
  }

  // Uploads the arguments, and compiles.
  v1::ExecuteRequest RequestFor(const testing::EndlessProgram& program) {
    v1::ExecuteRequest request;
    const auto compiled = Compile(*stubs_, program.graph);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok()) return request;
    request.set_graph_hash(compiled->graph_hash());
    for (uint32_t slot = 0; slot < program.arguments.size(); ++slot) {
      const std::string& bytes = program.arguments[slot];
      const uint64_t handle = *AllocateBytes(*stubs_, bytes.size());
      EXPECT_TRUE(Upload(*stubs_, handle, bytes).ok());
      AddBuffer(request, slot, handle);
      handles_.push_back(handle);
    }
    return request;
  }
  void FreeArguments() {
    EXPECT_TRUE(Free(*stubs_, handles_).ok());
    handles_.clear();
  }

  std::vector<uint64_t> handles_;
};

TEST_F(StopTest, AClientThatCancelsIsHeardWhateverTheKernelIsInTheMiddleOf) {
  for (const testing::EndlessProgram& program : testing::EndlessPrograms()) {
    SCOPED_TRACE(program.name);
    const v1::ExecuteRequest request = RequestFor(program);
    ASSERT_FALSE(HasFailure());
    const uint64_t launches = TheDevice().stats().launches;
    grpc::ClientContext context;
    std::thread client([&] {
      v1::ExecuteResponse response;
      EXPECT_EQ(stubs_->kernel->Execute(&context, request, &response).error_code(), grpc::StatusCode::CANCELLED);
    });
    AwaitLaunch(launches);
    context.TryCancel();
    client.join();
    ExpectIdleSoon();
    FreeArguments();
  }
}

TEST_F(StopTest, SoIsADeadline) {
  for (const testing::EndlessProgram& program : testing::EndlessPrograms()) {
    SCOPED_TRACE(program.name);
    const v1::ExecuteRequest request = RequestFor(program);
    ASSERT_FALSE(HasFailure());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    v1::ExecuteResponse response;
    EXPECT_EQ(stubs_->kernel->Execute(&context, request, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    ExpectIdleSoon();
    FreeArguments();
  }
}

// What many cheap runs took says nothing of the next one: it is none for a thread that serves others.
TEST_F(StopTest, CheapRunsDoNotMakeALongOneCheap) {
  const auto compiled = Compile(*stubs_, testing::CountsTo());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto request_for = [&](int32_t times) {
    v1::ExecuteRequest request;
    request.set_graph_hash(compiled->graph_hash());
    AddBuffer(request, 0, handles_[0]);
    AddBuffer(request, 1, handles_[1]);
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &times, 4);
    EXPECT_TRUE(Upload(*stubs_, handles_[1], bytes).ok());
    return request;
  };
  handles_ = {*AllocateBytes(*stubs_, 4), *AllocateBytes(*stubs_, 4)};
  const v1::ExecuteRequest cheap = request_for(1);
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(Execute(*stubs_, cheap).ok());
  const auto program = server_->engine().ListPrograms().front()->program->single();
  EXPECT_EQ(program->runs(), 150u);
  EXPECT_GE(program->estimate_ns(), 1'000'000'000u);

  const v1::ExecuteRequest endless = request_for(2'000'000'000);
  const uint64_t launches = TheDevice().stats().launches;
  grpc::ClientContext context;
  std::thread client([&] {
    v1::ExecuteResponse response;
    EXPECT_EQ(stubs_->kernel->Execute(&context, endless, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  AwaitLaunch(launches);
  const absl::Time asked = absl::Now();
  for (int i = 0; i < 20; ++i) FirstDevice(*stubs_);
  EXPECT_LT(absl::Now() - asked, kSoon);
  context.TryCancel();
  client.join();
  ExpectIdleSoon();
}

TEST_F(StopTest, WorkOfHoursIsRefusedWithItsEstimate) {
  v1::ServerConfig config = server::DefaultConfig();
  config.mutable_graph_limits()->set_max_run_seconds(60);
  Start(config);
  // Some seconds; a recording of many such is minutes.
  const auto compiled = Compile(*stubs_, testing::CountsFor(2'000'000'000));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto record = [&](int steps) {
    v1::RecordSequenceRequest request;
    v1::RecordSequenceResponse recorded;
    request.add_programs()->set_graph_hash(compiled->graph_hash());
    for (int i = 0; i < steps; ++i) {
      v1::RecordedStep& step = *request.add_steps();
      step.add_arguments()->mutable_memory()->set_buffer(0);
    }
    return Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, request, recorded);
  };
  EXPECT_TRUE(record(5).ok());
  const absl::Status refused = record(50);
  EXPECT_EQ(CodeOf(refused), v1::GRAPH_TOO_LARGE) << refused;
  EXPECT_EQ(DetailOf(refused)->limit(), "seconds of one run");
  EXPECT_EQ(DetailOf(refused)->limit_value(), 60u);
  EXPECT_GT(DetailOf(refused)->used(), 60u);

  const absl::Status long_program = Compile(*stubs_, testing::EndlessPrograms()[1].graph).status();
  EXPECT_EQ(CodeOf(long_program), v1::GRAPH_TOO_LARGE) << long_program;
  EXPECT_EQ(DetailOf(long_program)->limit(), "seconds of one run");
}

}  // namespace
}  // namespace kiln::e2e
