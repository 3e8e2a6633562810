// What clients cost that do nothing: so many connections, each with a session and a stream of commands, and what an
// active client notices of them.
//
// The server is a process of its own, forked from this one before it has threads, so that its memory and threads are
// its alone.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "kiln/v1/session_service.grpc.pb.h"
#include "server/config.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/loads.h"

namespace kiln::bench {
namespace {

// The server, until this ends.
class ServerProcess {
 public:
  explicit ServerProcess(uint64_t clients) {
    int port[2], end[2];
    KILN_CHECK(pipe(port) == 0 && pipe(end) == 0);
    pid_ = fork();
    KILN_CHECK(pid_ >= 0);
    if (pid_ == 0) Serve(clients, port[1], end);
    close(port[1]);
    close(end[0]);
    end_ = end[1];
    char text[64] = {};
    KILN_CHECK(read(port[0], text, sizeof(text) - 1) > 0);
    close(port[0]);
    address_ = text;
  }
  ~ServerProcess() {
    close(end_);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

  // A row of /proc/PID/status: "VmRSS", in KiB; "Threads".
  uint64_t Status(const std::string& row) const {
    std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
    for (std::string word; status >> word;) {
      uint64_t value = 0;
      if (word == row + ":" && status >> value) return value;
    }
    return 0;
  }

 private:
  [[noreturn]] static void Serve(uint64_t clients, int port, int end[2]) {
    close(end[1]);
    std::signal(SIGPIPE, SIG_IGN);
    v1::ServerConfig config = server::DefaultConfig();
    // All come from one address.
    config.mutable_connection_limits()->set_max_per_address(static_cast<uint32_t>(clients + 100));
    config.mutable_session_limits()->set_max_sessions_per_address(static_cast<uint32_t>(clients + 100));
    config.mutable_session_limits()->set_max_lease_seconds(3600);
    {
      const BenchServer server(config);
      KILN_CHECK(write(port, server.address().data(), server.address().size()) > 0);
      close(port);
      char nothing = 0;
      while (read(end[0], &nothing, 1) > 0) {
      }
    }
    std::_Exit(0);
  }

  pid_t pid_ = -1;
  int end_ = -1;
  std::string address_;
};

// Calls under way, at most so many at once; a failure ends the process.
class Several {
 public:
  void Begin() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Several::HasRoom));
    ++under_way_;
  }
  void End(const grpc::Status& status) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.error_message().c_str());
    KILN_CHECK(status.ok());
    absl::MutexLock lock(&mutex_);
    --under_way_;
  }
  void Wait() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Several::None));
  }

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_ < 64; }
  bool None() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_ == 0; }
  absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One that is there and asks for nothing more.
class IdleClient : private grpc::ClientBidiReactor<v1::SubmitRequest, v1::SubmitResponse> {
 public:
  explicit IdleClient(const std::string& address)
      : channel_(ChannelTo(address)),
        kernels_(v1::KernelService::NewStub(channel_)),
        sessions_(v1::SessionService::NewStub(channel_)) {
    channel_->GetState(/*try_to_connect=*/true);
  }

  void AwaitConnection() {
    KILN_CHECK(channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::minutes(1)));
  }
  void OpenSession(Several& several) {
    several.Begin();
    opening_.set_lease_seconds(3600);
    sessions_->async()->Open(&opening_context_, &opening_, &session_, [&](const grpc::Status& s) { several.End(s); });
  }
  // Under the session; returns before the server has welcomed it.
  void OpenStream(Several& several) {
    several.Begin();
    welcomed_ = &several;
    hello_.mutable_hello()->set_session_token(session_.token());
    kernels_->async()->Submit(&stream_context_, this);
    StartRead(&welcome_);
    StartWrite(&hello_);
    AddHold();
    StartCall();
  }
  void Cancel() { stream_context_.TryCancel(); }
  void AwaitEnd() {
    if (welcomed_ == nullptr) return;
    RemoveHold();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended_));
  }

 private:
  void OnReadDone(bool ok) override {
    welcomed_->End(ok && welcome_.has_welcome() ? grpc::Status::OK
                                                : grpc::Status(grpc::StatusCode::UNAVAILABLE, "no welcome"));
  }
  void OnDone(const grpc::Status&) override {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::KernelService::Stub> kernels_;
  const std::unique_ptr<v1::SessionService::Stub> sessions_;
  grpc::ClientContext opening_context_, stream_context_;
  v1::OpenSessionRequest opening_;
  v1::OpenSessionResponse session_;
  v1::SubmitRequest hello_;
  v1::SubmitResponse welcome_;
  Several* welcomed_ = nullptr;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

int Main(int argc, char** argv) {
  CLI::App app("What idle connections, sessions and streams cost a server");
  uint64_t clients = 10'000;
  double seconds = 20;
  bool smoke = false;
  app.add_option("--clients", clients, "that are idle")->capture_default_str();
  app.add_option("--seconds", seconds, "for which an active client is watched, before and beside")
      ->capture_default_str();
  app.add_flag("--smoke", smoke, "a few, for a moment: whether it works");
  CLI11_PARSE(app, argc, argv);
  if (smoke) {
    clients = 50;
    seconds = 0.5;
  }
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < clients + 200) {
    std::fprintf(stderr, "at most %llu descriptors here: raise the limit (ulimit -Hn), or give fewer --clients\n",
                 static_cast<unsigned long long>(files.rlim_cur));
    return 1;
  }
  const ServerProcess server(clients);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const Folder folder;
  const auto active = MakeLoad(
      server.address(),
      absl::StrCat("class tiny rate=500 arrivals=constant outstanding=1000 graph=", folder.Write("tiny.uop", kTiny)));
  uint64_t rss_before = 0;
  std::printf(
      "| %llu times | memory, KiB each | beyond the row above | threads | active: p50 µs | p99 µs |\n"
      "|---|---|---|---|---|---|\n",
      static_cast<unsigned long long>(clients));
  double each_before = 0;
  const auto row = [&](const char* what, bool watch) {
    load::ClassResult tiny;
    if (watch) {
      load::Step step;
      step.warm_up = absl::Seconds(std::min(2.0, seconds));
      step.length = absl::Seconds(seconds);
      step.drain = absl::Seconds(60);
      tiny = active->Run(step).at(0);
      KILN_CHECK(tiny.ok == tiny.due);
    }
    const uint64_t rss = server.Status("VmRSS"), threads = server.Status("Threads");
    if (rss_before == 0) rss_before = rss;
    const double each = (static_cast<double>(rss) - static_cast<double>(rss_before)) / static_cast<double>(clients);
    std::printf("| %s | %.1f | %.1f | %llu | ", what, each, each - each_before,
                static_cast<unsigned long long>(threads));
    if (watch) {
      std::printf("%.0f | %.0f |\n", static_cast<double>(tiny.answered.Quantile(0.5)) / 1e3,
                  static_cast<double>(tiny.answered.Quantile(0.99)) / 1e3);
    } else {
      std::printf("| |\n");
    }
    std::fflush(stdout);
    each_before = each;
    return threads;
  };
  const uint64_t threads_before = row("nothing", true);
  std::vector<std::unique_ptr<IdleClient>> idle;
  for (uint64_t i = 0; i < clients; ++i) {
    idle.push_back(std::make_unique<IdleClient>(server.address()));
    // Not more at once than a listening socket takes.
    if (i % 64 == 63) {
      for (uint64_t j = i - 63; j <= i; ++j) idle[j]->AwaitConnection();
    }
  }
  for (const auto& client : idle) client->AwaitConnection();
  row("a connection", true);
  Several several;
  for (const auto& client : idle) client->OpenSession(several);
  several.Wait();
  row("a session on it", false);
  for (const auto& client : idle) client->OpenStream(several);
  several.Wait();
  const uint64_t threads_beside = row("a stream under it", true);
  // A few come with load; one each would be a thousand times as many.
  KILN_CHECK(threads_beside < threads_before + 16 + clients / 10);
  for (const auto& client : idle) client->Cancel();
  for (const auto& client : idle) client->AwaitEnd();
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
