// kilnd as a process: how it starts, and how SIGTERM ends it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/graph/graph_hash.h"
#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/kilnd_process.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

class ShutdownTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    return absl::StrCat(::testing::TempDir(), "/", info->name(), ".", name);
  }

  // Starts kilnd and waits until it serves.
  std::unique_ptr<Kilnd> Serve(std::vector<std::string> flags = {}) {
    const std::string port = File("port");
    ServingKilnd serving = e2e::Serve(std::move(flags), port.substr(0, port.rfind('.')));
    address_ = serving.address;
    stubs_ = std::make_unique<Stubs>(address_);
    return std::move(serving.process);
  }

  // New requests are refused: SIGTERM has arrived.
  bool Drains() {
    return Eventually([&] {
      const auto detail = DetailOf(AllocateBytes(*stubs_, 1).status());
      return detail.has_value() && detail->code() == v1::SHUTTING_DOWN;
    });
  }

  std::string Text(const std::string& name) const {
    std::ifstream file(File(name));
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }

  std::string address_;
  std::unique_ptr<Stubs> stubs_;
};

TEST_F(ShutdownTest, IdleServerStopsAtOnce) {
  for (const int number : {SIGTERM, SIGINT}) {
    const auto kilnd = Serve();
    EXPECT_EQ(Health(*stubs_), grpc::health::v1::HealthCheckResponse::SERVING);
    kilnd->Signal(number);
    EXPECT_EQ(kilnd->Wait(), 0);
    EXPECT_NE(access(File("port").c_str(), F_OK), 0) << "the port file goes with the server";
  }
}

TEST_F(ShutdownTest, AnUploadUnderWayFinishes) {
  const auto kilnd = Serve();
  constexpr size_t kHalf = 1 << 20;
  const uint64_t handle = *AllocateBytes(*stubs_, 2 * kHalf);
  const auto context = NewContext();
  v1::WriteResponse response;
  const auto stream = stubs_->buffer->Write(context.get(), &response);
  v1::WriteRequest request;
  request.mutable_header()->mutable_buffer()->set_handle(handle);
  request.mutable_header()->set_bytes(2 * kHalf);
  ASSERT_TRUE(stream->Write(request));
  request.set_chunk(std::string(kHalf, 'u'));
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(Eventually([&] { return *Download(*stubs_, handle, 0, 1) == "u"; }));

  kilnd->Signal(SIGTERM);
  ASSERT_TRUE(Drains());
  EXPECT_EQ(Health(*stubs_), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(*stubs_, "CPU:0"), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(response.bytes(), 2 * kHalf);
  EXPECT_EQ(kilnd->Wait(), 0);
}

TEST_F(ShutdownTest, DrainTimeoutEnds) {
  const auto kilnd = Serve({"--drain_seconds=0"});
  const uint64_t handle = *AllocateBytes(*stubs_, 100);
  const auto context = NewContext();
  v1::WriteResponse response;
  const auto stream = stubs_->buffer->Write(context.get(), &response);
  v1::WriteRequest request;
  request.mutable_header()->mutable_buffer()->set_handle(handle);
  request.mutable_header()->set_bytes(100);
  ASSERT_TRUE(stream->Write(request));
  request.set_chunk("u");
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(Eventually([&] { return *Download(*stubs_, handle, 0, 1) == "u"; }));
  kilnd->Signal(SIGTERM);
  EXPECT_EQ(kilnd->Wait(), 0);
  EXPECT_FALSE(stream->Finish().ok());
}

// The compiler writes its stages into a pipe that nobody empties, and so never ends.
TEST_F(ShutdownTest, ACompilationThatNeverEndsIsAbandoned) {
  const std::string dump = File("dump");
  std::filesystem::remove_all(dump);
  const auto kilnd = Serve({"--drain_seconds=0", "--dump=" + dump});
  std::string text = "0 CONST [] weakint 8\n1 PARAM : float32 [0] slot=0\n";
  int last = 1;
  for (; last < 3000; ++last) absl::StrAppend(&text, last + 1, " ADD [", last, ", 1]\n");
  const v1::Graph graph = GraphOf(absl::StrCat(text, last + 1, " TUPLE [", last, "]\n"));
  const auto folder = [&dump](const v1::Graph& g) {
    return absl::StrCat(dump, "/", HashGraph(g)->Hex().substr(0, 16));
  };

  // Another graph shows what the first file is called.
  ASSERT_TRUE(Compile(*stubs_, GraphOf(kAddOne)).ok());
  std::string first = "~";
  for (const auto& entry : std::filesystem::directory_iterator(folder(GraphOf(kAddOne)))) {
    first = std::min(first, entry.path().filename().string());
  }
  std::filesystem::create_directories(folder(graph));
  const std::string pipe = absl::StrCat(folder(graph), "/", first);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int end = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(end, 0);
  ASSERT_GT(fcntl(end, F_SETPIPE_SZ, 4096), 0);
  std::thread client([&] { EXPECT_FALSE(Compile(*stubs_, graph).ok()); });
  char byte;
  ASSERT_TRUE(Eventually([&] { return read(end, &byte, 1) == 1; }));

  kilnd->Signal(SIGTERM);
  EXPECT_EQ(kilnd->Wait(), 0);
  client.join();
  close(end);
  EXPECT_NE(Text("log").find("event=stopped all_finished=false abandoned=true"), std::string::npos) << Text("log");
  EXPECT_NE(access(File("port").c_str(), F_OK), 0);
}

TEST_F(ShutdownTest, UnderLoadEveryRequestIsAnsweredOrRefused) {
  const auto kilnd = Serve();
  v1::ExecuteRequest request;
  *request.mutable_graph() = GraphOf(kAddOne);
  request.set_result_mode(v1::RESULT_INLINE);
  AddFloats(request, 0, std::vector<float>(8, 1.0f));
  ASSERT_TRUE(Execute(*stubs_, request).ok());

  constexpr int kClients = 8;
  std::atomic<int> answered{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      Stubs stubs(address_);
      // Some pause for longer than the server looks whether anybody asks still, and meet its last moments.
      const absl::Duration pause = absl::Milliseconds(i % 2 * (55 + i));
      for (;;) {
        const auto response = Execute(stubs, request);
        absl::SleepFor(pause);
        if (response.ok()) {
          EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 2.0f));
          ++answered;
          continue;
        }
        // Refused in our words, or the connection was gone: never a CANCELLED that nobody asked for.
        EXPECT_TRUE(absl::IsUnavailable(response.status())) << response.status();
        const auto detail = DetailOf(response.status());
        if (!detail.has_value()) return;
        EXPECT_EQ(detail->code(), v1::SHUTTING_DOWN);
      }
    });
  }
  ASSERT_TRUE(Eventually([&] { return answered > 20 * kClients; }));
  kilnd->Signal(SIGTERM);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(kilnd->Wait(), 0);
  EXPECT_NE(Text("log").find("event=stopped all_finished=true"), std::string::npos) << Text("log");
}

TEST_F(ShutdownTest, AnExecutionUnderWayFinishes) {
  const auto kilnd = Serve();
  // Long enough to be met running: thirty sines of four million numbers.
  std::string text = "0 CONST [] weakint 4194304\n1 PARAM : float32 [0] slot=0\n";
  int last = 1;
  for (int i = 0; i < 30; ++i, ++last) absl::StrAppend(&text, last + 1, " SIN [", last, "]\n");
  absl::StrAppend(&text, last + 1, " TUPLE [", last, "]\n");
  v1::ExecuteRequest request;
  const auto compiled = Compile(*stubs_, GraphOf(text));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  request.set_graph_hash(compiled->graph_hash());
  AddBuffer(request, 0, *AllocateFloats(*stubs_, 4194304));

  absl::StatusOr<v1::ExecuteResponse> response;
  std::thread client([&] { response = Execute(*stubs_, request); });
  ASSERT_TRUE(Eventually([&] {
    v1::ListProgramsResponse list;
    return Call(*stubs_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), list).ok() &&
           list.hits() == 1;
  }));
  kilnd->Signal(SIGTERM);
  client.join();
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(kilnd->Wait(), 0);
  EXPECT_NE(Text("log").find("event=stopped all_finished=true"), std::string::npos) << Text("log");
}

TEST_F(ShutdownTest, RefusesAnOpenPort) {
  Kilnd kilnd({"--listen=0.0.0.0:0"}, File("output"));
  EXPECT_EQ(kilnd.Wait(), 2);
  EXPECT_NE(Text("output").find("--insecure"), std::string::npos) << Text("output");
}

TEST_F(ShutdownTest, ChecksItsConfiguration) {
  std::ofstream(File("good.txtpb")) << "drain_seconds: 7\n";
  Kilnd good({"--check_config", "--config=" + File("good.txtpb")}, File("output"));
  EXPECT_EQ(good.Wait(), 0);
  EXPECT_NE(Text("output").find("drain_seconds: 7"), std::string::npos) << Text("output");

  std::ofstream(File("bad.txtpb")) << "drain_secs: 7\n";
  Kilnd bad({"--check_config", "--config=" + File("bad.txtpb")}, File("output"));
  EXPECT_EQ(bad.Wait(), 2);
  EXPECT_NE(Text("output").find("drain_secs"), std::string::npos) << Text("output");
}

TEST_F(ShutdownTest, RefusesToLeaveOutAPassThatIsNotOptional) {
  Kilnd kilnd({"--disable_pass=linearize"}, File("output"));
  EXPECT_EQ(kilnd.Wait(), 2);
  EXPECT_NE(Text("output").find("\"linearize\" cannot be disabled: no program compiles without it; these can: "
                                "choose layouts, chain kernels, simplify ranges, "),
            std::string::npos)
      << Text("output");
}

TEST_F(ShutdownTest, APortThatIsTakenIsAnError) {
  const auto first = Serve();
  Kilnd second({"--listen=" + address_}, File("output"));
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_NE(Text("output").find("start_failed"), std::string::npos) << Text("output");
}

}  // namespace
}  // namespace kiln::e2e
