// kilnd: reads its settings, serves until told to stop, stops gently.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/config.h"
#include "server/config_files.h"
#include "server/job.h"
#include "server/logs/server_log.h"
#include "server/process/heap_trimmer.h"
#include "server/process/process.h"
#include "server/process/watchdog.h"
#include "server/rpc_server.h"
#include "server/server.h"
#include "server/service_manager.h"

namespace {

using kiln::server::Invocation;
using kiln::server::RpcServer;
using kiln::server::ServiceManager;

// How long cancelled requests have to notice. What takes longer is a compilation.
constexpr absl::Duration kGrace = absl::Seconds(3);

// Readers see the whole file or none.
absl::Status WritePortFile(const std::string& path, int port) {
  const std::string draft = absl::StrCat(path, ".", getpid());
  std::ofstream file(draft);
  file << port << "\n";
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    std::remove(draft.c_str());
    return absl::UnavailableError(absl::StrCat("cannot write --port_file=", path));
  }
  return absl::OkStatus();
}

// The next of `signals`, or 0 after `most`. The service manager hears meanwhile that the server is alive, as long as it
// answers.
int WaitForSignal(const sigset_t& signals, absl::Duration most, RpcServer& server, ServiceManager& manager) {
  const absl::Time end = kiln::SteadyNow() + most;
  for (;;) {
    const absl::Duration left = std::min(end - kiln::SteadyNow(), std::min(manager.period(), absl::Hours(1)));
    const timespec wait = absl::ToTimespec(std::max(left, absl::ZeroDuration()));
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    if (signal > 0) return signal;
    if (kiln::SteadyNow() >= end) return 0;
    if (manager.period() < absl::InfiniteDuration() && server.Answers(manager.period() / 2)) manager.Alive();
  }
}

// Until a signal that ends the server has come, and balancers have had time to notice; that signal.
int ServeUntilTold(const Invocation& invocation, const sigset_t& signals, RpcServer& server, ServiceManager& manager,
                   spdlog::logger& log) {
  const std::string serving = absl::StrCat("serving on port ", server.port());
  manager.Ready(serving);
  int signal = 0;
  while ((signal = WaitForSignal(signals, absl::InfiniteDuration(), server, manager)) == SIGHUP) {
    manager.Reloading();
    server.Reload().IgnoreError();  // it is logged
    manager.Ready(serving);
  }
  const absl::Duration grace = absl::Seconds(invocation.config.drain_grace_seconds());
  manager.Stopping("draining", grace + absl::Seconds(invocation.config.drain_seconds()) + kGrace);
  if (grace == absl::ZeroDuration()) return signal;
  log.info("event=leaving signal={} seconds={}", signal, invocation.config.drain_grace_seconds());
  server.AnnounceEnd();
  const absl::Time end = kiln::SteadyNow() + grace;
  while (WaitForSignal(signals, end - kiln::SteadyNow(), server, manager) == SIGHUP) {
    server.Reload().IgnoreError();
  }
  return signal;
}

int Serve(const Invocation& invocation) {
  // Before any thread starts, so that all of them leave these to sigwait.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // A file that would be larger than the process may write is an error of that write.
  std::signal(SIGXFSZ, SIG_IGN);

  kiln::server::PrepareToServe();

  ServiceManager manager(getenv);
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);  // nobody else's business
  const auto log = kiln::server::MakeServerLog(invocation.config.log_level(), invocation.config.log_format());
  if (kiln::server::InJob(invocation.config) && kiln::server::RankInJob() != 0) {
    return kiln::server::ServeRank(invocation.config, log);
  }
  const kiln::server::HeapTrimmer trimmer;
  auto server = kiln::server::StartServer(invocation.config, log, "/proc/self/exe");
  absl::Status status = server.status();
  if (status.ok() && !invocation.port_file.empty()) status = WritePortFile(invocation.port_file, (*server)->port());
  if (!status.ok()) {
    log->error("event=start_failed message=\"{}\"", absl::CEscape(status.message()));
    return 1;
  }
  log->info("event=serving listen={} port={}", invocation.config.listen(), (*server)->port());
  if (!kiln::server::IsLoopback(invocation.config.listen())) {
    log->warn(
        "event=open_port listen={} message=\"before anybody has said who asks, gRPC keeps a block of headers that "
        "never "
        "ends: where strangers reach this port, put HAProxy before it (docs/security.md, deploy/haproxy.cfg)\"",
        invocation.config.listen());
  }

  const int signal = ServeUntilTold(invocation, ends, **server, manager, *log);
  // A second signal means now.
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  log->info("event=draining signal={} seconds={}", signal, invocation.config.drain_seconds());
  const absl::Duration timeout = absl::Seconds(invocation.config.drain_seconds());
  const auto remove_port_file = [&invocation] {
    if (!invocation.port_file.empty()) std::remove(invocation.port_file.c_str());
  };
  const kiln::server::Watchdog watchdog(timeout + kGrace, [&] {
    remove_port_file();
    log->warn("event=stopped all_finished=false abandoned=true");
    log->flush();
    std::_Exit(0);
  });
  const bool finished = (*server)->Drain(timeout);
  server->reset();
  remove_port_file();
  log->info("event=stopped all_finished={}", finished);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (kiln::server::IsWorker(argc, argv)) return kiln::server::ServeWorker(argc, argv);
  const auto invocation = kiln::server::ParseCommandLine(argc, argv);
  if (!invocation.ok()) {
    std::fprintf(stderr, "kilnd: %s\n", std::string(invocation.status().message()).c_str());
    return 2;
  }
  if (!invocation->message.empty()) {
    std::fputs(invocation->message.c_str(), invocation->exit_code == 0 ? stdout : stderr);
    return invocation->exit_code;
  }
  if (invocation->check_config) {
    absl::Status good = kiln::server::CheckFiles(invocation->config);
    if (good.ok()) good = kiln::server::CheckTenants(invocation->config);
    if (!good.ok()) {
      std::fprintf(stderr, "kilnd: %s\n", std::string(good.message()).c_str());
      return 2;
    }
    std::fputs(invocation->config.DebugString().c_str(), stdout);
    return 0;
  }
  return Serve(*invocation);
}
