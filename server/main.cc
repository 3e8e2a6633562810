// kilnd: reads its settings, serves until told to stop, stops gently.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "server/config.h"
#include "server/job.h"
#include "server/process.h"
#include "server/server.h"
#include "server/watchdog.h"

namespace {

using kiln::server::Invocation;

// How long cancelled requests have to notice. What takes longer is a compilation.
constexpr absl::Duration kGrace = absl::Seconds(3);

// One event a line, as key=value, on the error output.
std::shared_ptr<spdlog::logger> MakeLog(const std::string& level) {
  auto log = std::make_shared<spdlog::logger>("kilnd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  log->set_level(spdlog::level::from_str(level));
  log->flush_on(spdlog::level::info);
  return log;
}

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

int Serve(const Invocation& invocation) {
  // Before any thread starts, so that all of them leave these to sigwait.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  kiln::server::PrepareToServe();

  const auto log = MakeLog(invocation.config.log_level());
  if (kiln::server::InJob(invocation.config) && kiln::server::RankInJob() != 0) {
    return kiln::server::ServeRank(invocation.config, log);
  }
  auto server = kiln::server::StartServer(invocation.config, log, "/proc/self/exe");
  absl::Status status = server.status();
  if (status.ok() && !invocation.port_file.empty()) status = WritePortFile(invocation.port_file, (*server)->port());
  if (!status.ok()) {
    log->error("event=start_failed message=\"{}\"", absl::CEscape(status.message()));
    return 1;
  }
  log->info("event=serving listen={} port={}", invocation.config.listen(), (*server)->port());

  int signal = 0;
  for (;;) {
    sigwait(&ends, &signal);
    if (signal != SIGHUP) break;
    (*server)->Reload().IgnoreError();  // it is logged
  }
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
    if (const absl::Status good = kiln::server::CheckTenants(invocation->config); !good.ok()) {
      std::fprintf(stderr, "kilnd: %s\n", std::string(good.message()).c_str());
      return 2;
    }
    std::fputs(invocation->config.DebugString().c_str(), stdout);
    return 0;
  }
  return Serve(*invocation);
}
