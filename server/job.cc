#include "server/job.h"

#include <sched.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/cluster/mpi_wire.h"
#include "runtime/cluster/transport.h"
#include "runtime/collective/script.h"
#include "runtime/drivers/cpu/machine.h"
#include "runtime/drivers/remote/device.h"
#include "runtime/drivers/remote/switchboard.h"
#include "runtime/drivers/remote/worker.h"
#include "server/compile_memory.h"
#include "server/cpu_core.h"
#include "server/process/watchdog.h"

namespace kiln::server {
namespace {

namespace cluster = runtime::cluster;
namespace remote = runtime::remote;

// How long rank 0 waits for the others to have their devices ready. All have met in MPI
// before.
constexpr absl::Duration kComeUp = absl::Seconds(60);

// How long a rank may take to leave.
constexpr absl::Duration kLeave = absl::Seconds(10);

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Where the linker put it: beside this program.
std::string LibraryPath(const v1::ServerConfig& config) {
  if (!config.mpi_library().empty()) return config.mpi_library();
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  return program.substr(0, program.rfind('/') + 1) + "libkiln_mpi.so";
}

// The cores of this process, if others of the job must do with the same ones: its share.
std::vector<uint32_t> ShareOfCores() {
  std::vector<uint32_t> cores = runtime::cpu::UsableCores();
  const size_t ranks = cluster::RanksOnThisHost(), number = cluster::NumberOnThisHost();
  const auto all = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  if (ranks == 1 || cores.size() * ranks <= all) return cores;
  const size_t each = std::max<size_t>(1, cores.size() / ranks);
  const size_t begin = number * each % cores.size(), end = std::min(cores.size(), begin + each);
  return {cores.begin() + static_cast<std::ptrdiff_t>(begin), cores.begin() + static_cast<std::ptrdiff_t>(end)};
}

// For threads that start from now on.
void StayOn(const std::vector<uint32_t>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (uint32_t core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// What rank 0 has devices do together.
absl::Status Script(cluster::Transport& transport, absl::string_view task, const cluster::Ranges& memory) {
  KILN_ASSIGN_OR_RETURN(const auto script,
                        runtime::collective::UnpackScript(task, transport.rank(), transport.size(), memory));
  return runtime::collective::Run(script, transport);
}

}  // namespace

bool InJob(const v1::ServerConfig& config) {
  return config.mpi() == "on" || (config.mpi() == "auto" && cluster::LaunchedRanks() > 1);
}

uint32_t RankInJob() { return cluster::LaunchedRank(); }

runtime::cpu::DeviceOptions CpuOptions(const v1::ServerConfig& config) {
  runtime::cpu::DeviceOptions cpu;
  cpu.threads = config.cpu_threads();
  cpu.memory_limit_bytes = config.cpu_memory_bytes();
  cpu.profile_jit = config.profile_jit();
  if (cpu.memory_limit_bytes == 0) {
    cpu.memory_limit_bytes = DefaultCpuMemoryBytes(config, runtime::cpu::UsableMemoryBytes());
    if (InJob(config)) cpu.memory_limit_bytes /= cluster::RanksOnThisHost();
  }
  if (!InJob(config)) return cpu;
  // Rank 0 says itself where the devices of others are.
  if (RankInJob() == 0) cpu.place = remote::PlaceName(0, HostName());
  if (cpu.threads == 0) cpu.threads = static_cast<uint32_t>(ShareOfCores().size());
  return cpu;
}

absl::Status OpenJob(const v1::ServerConfig& config, std::shared_ptr<spdlog::logger> log,
                     std::function<void(const absl::Status& why)> died,
                     std::vector<std::unique_ptr<runtime::hal::Device>>& devices) {
  const std::string library = LibraryPath(config);
  KILN_ASSIGN_OR_RETURN(const auto board,
                        remote::Switchboard::Open(
                            [&] { return cluster::JoinMpi(library); }, absl::Seconds(config.rank_silence_seconds()),
                            [log, died = std::move(died)](uint32_t rank, const absl::Status& why) {
                              log->error("event=rank_died rank={} reason=\"{}\"", rank, absl::CEscape(why.message()));
                              if (rank == 0) {
                                // This one: nobody can be reached any more, and MPI not be left.
                                log->flush();
                                std::_Exit(1);
                              }
                              died(why);
                            }));
  if (board->transport().rank() != 0) {
    return MakeError(v1::BAD_ARGUMENT, "this process is not rank 0 of its job; --mpi=off keeps it out");
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<remote::Hello> hellos, board->Gather(kComeUp));
  log->info("event=rank rank=0 host={} process={} devices={}", HostName(), getpid(), devices.size());
  for (uint32_t rank = 1; rank < hellos.size(); ++rank) {
    const remote::Hello& hello = hellos[rank];
    log->info("event=rank rank={} host={} process={} devices={}", rank, hello.host, hello.process,
              hello.devices.size());
    for (auto& device : remote::MakeDevices(board, rank, hello, static_cast<uint32_t>(devices.size()))) {
      devices.push_back(std::move(device));
    }
  }
  return absl::OkStatus();
}

int ServeRank(const v1::ServerConfig& config, std::shared_ptr<spdlog::logger> log) {
  StayOn(ShareOfCores());
  absl::Notification goodbye;
  std::unique_ptr<remote::Worker> worker;
  cluster::TransportOptions options;
  options.silence = absl::Seconds(config.rank_silence_seconds());
  options.reader = [&](cluster::Message message) { return worker->Read(std::move(message)); };
  options.goodbye = [&] { goodbye.Notify(); };
  options.lost = [log](const std::string& why) {
    log->error("event=rank_ends reason=\"{}\"", absl::CEscape(why));
    log->flush();
    std::_Exit(1);
  };
  const std::string library = LibraryPath(config);
  std::optional<Watchdog> watchdog;
  const auto serve = [&]() -> absl::Status {
    runtime::cpu::DeviceOptions cpu = CpuOptions(config);
    KILN_ASSIGN_OR_RETURN(cpu.core, CoreOf(config, *log));
    KILN_ASSIGN_OR_RETURN(auto devices, runtime::cpu::CreateDevices(config.cpu_devices(), std::move(cpu)));
    KILN_ASSIGN_OR_RETURN(worker, remote::Worker::Make(std::move(devices), Script));
    KILN_ASSIGN_OR_RETURN(const auto transport,
                          cluster::Transport::Open([&] { return cluster::JoinMpi(library); }, std::move(options)));
    worker->Begin(transport.get(), HostName());
    log->info("event=rank_serving rank={} ranks={} devices={}", transport->rank(), transport->size(),
              config.cpu_devices());
    goodbye.WaitForNotification();
    // MPI waits for all ranks to leave, and one may have been killed meanwhile.
    watchdog.emplace(kLeave, [] { std::_Exit(0); });
    worker = nullptr;
    return absl::OkStatus();
  };
  if (const absl::Status status = serve(); !status.ok()) {
    log->error("event=start_failed message=\"{}\"", absl::CEscape(status.message()));
    return 1;
  }
  log->info("event=rank_stopped");
  return 0;
}

}  // namespace kiln::server
