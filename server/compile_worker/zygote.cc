#include "server/compile_worker/zygote.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>

#include "server/compile_worker/job.h"
#include "server/compile_worker/sandbox.h"
#include "server/compile_worker/sealed_memory.h"

namespace kiln::server {
namespace {

// The server made it, so it is as long as it is.
constexpr uint64_t kAnyBytes = UINT64_MAX;

bool DoJobIn(int fd, const CompilerInProcess& compiler, std::string& result) {
  auto bytes = ReadSealed(fd, kAnyBytes);
  v1::CompileJob job;
  if (!bytes.ok() || !job.ParseFromString(*bytes)) return false;
  bytes->clear();
  bytes->shrink_to_fit();
  return RunJob(job, compiler).SerializeToString(&result);
}

// One job after the other, of one client. Does not return.
[[noreturn]] void RunWorker(int socket, const CompilerInProcess& compiler, uint64_t memory_bytes) {
  {
    // By it the server sees how much memory this process takes. Once it is locked in, the server may not open it: where
    // /proc hides processes, it hides this one.
    const Descriptor memory(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    if (!memory.valid() || !SendDescriptor(socket, kMemory, memory.get())) _exit(2);
  }
  if (!EnterSandbox(memory_bytes).ok()) _exit(3);
  for (;;) {
    const Received job = ReceiveDescriptor(socket);
    if (job.what != kJob) _exit(0);
    std::string result;
    if (!DoJobIn(job.fd.get(), compiler, result)) _exit(4);
    const auto memory = SealedMemory(result);
    if (!memory.ok() || !SendDescriptor(socket, kResult, memory->get())) _exit(5);
  }
}

// Lets the server's threads go first where cores are short: a warm run takes microseconds, and would wait for a
// compilation to use up its turn. Inherited by workers. What this kernel does not know of it does no harm.
void GiveWay() {
  constexpr uint32_t kBatch = 3;             // SCHED_BATCH
  constexpr int32_t kNice = 10;              // a ninth of a thread's part where all cores are busy: it does go on
  constexpr uint64_t kTurnNs = 100'000'000;  // long turns: who asks for shorter ones comes before their end
  struct {                                   // the kernel's sched_attr
    uint32_t size = 48, policy = kBatch;
    uint64_t flags = 0;
    int32_t nice = kNice;
    uint32_t priority = 0;
    uint64_t runtime_ns = kTurnNs, deadline_ns = 0, period_ns = 0;
  } wanted;
  static_assert(sizeof wanted == 48);
  syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace

int RunZygote(const CompilerInProcess& compiler, uint64_t memory_bytes) {
  // What the server has open is none of its business; a signal to the server's group is the server's to hear.
  if (!CloseFrom(kZygoteSocket + 1)) return 1;
  setpgid(0, 0);
  GiveWay();
  BeEndedFirst();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGCHLD, SIG_IGN);  // the kernel buries them
  std::signal(SIGPIPE, SIG_IGN);
  if (const int null = open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0) {
    for (int fd = 0; fd < kZygoteSocket; ++fd) dup2(null, fd);
    if (null > kZygoteSocket) close(null);
  }
  for (;;) {
    Received asked = ReceiveDescriptor(kZygoteSocket);
    if (asked.what == kWarm) {
      std::string unused;
      DoJobIn(asked.fd.get(), compiler, unused);
      if (!SendDescriptor(kZygoteSocket, kDone, -1)) return 0;
      continue;
    }
    if (asked.what != kFork || !asked.fd.valid()) return 0;  // the server is gone, and with this process all workers
    const pid_t child = fork();
    if (child == 0) {
      close(kZygoteSocket);
      // If the parent went meanwhile, nobody would end this one.
      if (getppid() == 1) _exit(0);
      RunWorker(asked.fd.get(), compiler, memory_bytes);
    }
    const Descriptor process(child < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
    if (!SendDescriptor(kZygoteSocket, kProcess, process.get())) return 0;
  }
}

}  // namespace kiln::server
