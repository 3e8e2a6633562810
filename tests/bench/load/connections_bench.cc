// What clients cost that do nothing: so many connections, each with a session and a stream of commands, and what an
// active client notices of them.
//
// The server, the idle clients and the active one are a process each, so that the server's memory and threads are its
// alone, and the active client's threads wait for no idle one's.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "server/config.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/load/child_process.h"
#include "tests/bench/load/idle_clients.h"
#include "tests/bench/load/loads.h"

namespace kiln::bench {
namespace {

// Until nobody hears it any more.
void Serve(uint64_t clients, Line& line) {
  v1::ServerConfig config = server::DefaultConfig();
  // All come from one address.
  config.mutable_connection_limits()->set_max_per_address(static_cast<uint32_t>(clients + 100));
  config.mutable_session_limits()->set_max_sessions_per_address(static_cast<uint32_t>(clients + 100));
  config.mutable_session_limits()->set_max_lease_seconds(3600);
  const BenchServer server(config);
  line.Say(server.address());
  line.Hear();
}

constexpr char kDone[] = "done";

// Hears where the server is, then what to do, one after the other, and says when it is done.
void BeIdle(uint64_t clients, Line& line) {
  const std::string address = line.Hear();
  if (address.empty()) return;
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  auto idle = std::make_unique<IdleClients>(address);
  for (std::string word = line.Hear(); !word.empty(); word = line.Hear()) {
    if (word == "connect") idle->Connect(clients);
    if (word == "session") idle->OpenSessions();
    if (word == "stream") idle->OpenStreams();
    if (word == "end") idle = nullptr;
    line.Say(kDone);
  }
}

// What each row says; prints them.
class Rows {
 public:
  Rows(ChildProcess& server, load::Generator& active, uint64_t clients, double seconds)
      : server_(server), active_(active), clients_(static_cast<double>(clients)), seconds_(seconds) {
    std::printf(
        "| %llu times | memory, KiB each | beyond the row above | threads | active: server's CPU µs a call | p50 µs "
        "| p99 µs | sent late, p99 µs |\n"
        "|---|---|---|---|---|---|---|---|\n",
        static_cast<unsigned long long>(clients));
  }

  // The threads there are. With `watch`, what the active client notices.
  uint64_t Print(const char* what, bool watch) {
    load::ClassResult tiny;
    const double cpu_before = server_.CpuSeconds();
    if (watch) tiny = Watch();
    const double cpu_seconds = server_.CpuSeconds() - cpu_before;
    const uint64_t threads = server_.Status("Threads");
    const auto rss = static_cast<double>(server_.Status("VmRSS"));
    if (first_rss_ == 0) first_rss_ = rss;
    const double each = (rss - first_rss_) / clients_;
    std::printf("| %s | %.1f | %.1f | %llu | ", what, each, each - each_before_,
                static_cast<unsigned long long>(threads));
    if (watch) {
      std::printf("%.1f | %.0f | %.0f | %.0f |\n", 1e6 * cpu_seconds / static_cast<double>(tiny.due),
                  Micros(tiny.answered, 0.5), Micros(tiny.answered, 0.99), Micros(tiny.sent_late, 0.99));
    } else {
      std::printf("| | | |\n");
    }
    std::fflush(stdout);
    each_before_ = each;
    return threads;
  }

  // Of the last row.
  double each_kib() const { return each_before_; }

 private:
  static double Micros(const load::Histogram& histogram, double quantile) {
    return static_cast<double>(histogram.Quantile(quantile)) / 1e3;
  }

  load::ClassResult Watch() {
    load::Step step;
    step.warm_up = absl::ZeroDuration();  // all calls are counted, as all of the server's time is
    step.length = absl::Seconds(seconds_);
    step.drain = absl::Seconds(60);
    load::ClassResult tiny = active_.Run(step).at(0);
    KILN_CHECK(tiny.ok == tiny.due);
    return tiny;
  }

  ChildProcess& server_;
  load::Generator& active_;
  const double clients_, seconds_;
  double first_rss_ = 0, each_before_ = 0;
};

int Main(int argc, char** argv) {
  CLI::App app("What idle connections, sessions and streams cost a server");
  uint64_t clients = 10'000;
  double seconds = 20;
  bool smoke = false;
  app.add_option("--clients", clients, "that are idle")->capture_default_str();
  app.add_option("--seconds", seconds, "for which an active client is watched, before, beside and after")
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
  ChildProcess server([clients](Line& line) { Serve(clients, line); });
  ChildProcess idle([clients](Line& line) { BeIdle(clients, line); });
  const std::string address = server.line().Hear();
  KILN_CHECK(!address.empty());
  idle.line().Say(address);
  const auto tell_idle = [&idle](const char* word) {
    idle.line().Say(word);
    KILN_CHECK(idle.line().Hear() == kDone);
  };
  const Folder folder;
  const auto active = MakeLoad(address, absl::StrCat("class tiny rate=500 arrivals=constant outstanding=1000 graph=",
                                                     folder.Write("tiny.uop", kTiny)));
  Rows rows(server, *active, clients, seconds);
  const uint64_t threads_before = rows.Print("nothing", true);
  tell_idle("connect");
  rows.Print("a connection", true);
  tell_idle("session");
  rows.Print("a session on it", false);
  tell_idle("stream");
  const uint64_t threads_beside = rows.Print("a stream under it", true);
  // A few come with load; one each would be a thousand times as many.
  KILN_CHECK(threads_beside < threads_before + 16 + clients / 10);
  if (!smoke) KILN_CHECK(rows.each_kib() <= 64);  // of a few, what the server has once is most
  tell_idle("end");
  rows.Print("sessions alone: the clients are gone", true);
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
