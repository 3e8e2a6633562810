#include "server/compile_worker/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

extern char** environ;

namespace kiln::server {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "which calls a compiler makes here is not known"
#endif

absl::Status Refused(const char* what) {
  return absl::UnavailableError(absl::StrCat("sandbox: ", what, ": ", std::strerror(errno)));
}

// What a compiler needs, and no more. Anything else fails with EPERM, as if there were no such thing.
constexpr int kAllowed[] = {
    SYS_read,           SYS_write,           SYS_pread64,      SYS_close,         SYS_lseek,
    SYS_munmap,         SYS_mremap,          SYS_brk,          SYS_madvise,       SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn,    SYS_sigaltstack,  SYS_getpid,        SYS_gettid,
    SYS_exit,           SYS_exit_group,      SYS_futex,        SYS_clock_gettime, SYS_getrandom,
    SYS_recvmsg,        SYS_sendmsg,         SYS_memfd_create, SYS_sched_yield,   SYS_sched_getaffinity,
    SYS_uname,          SYS_restart_syscall,
};
// Whoever tries these is no compiler any more.
constexpr int kDeadly[] = {
    SYS_execve,  SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_socket,
    SYS_connect, SYS_bpf,      SYS_mount,  SYS_setuid,           SYS_kexec_load};

// What threads that run kernels need beside it. They are all there already.
constexpr int kAllowedToRun[] = {SYS_recvfrom,        SYS_sendto,     SYS_ppoll,    SYS_getcpu, SYS_nanosleep,
                                 SYS_clock_nanosleep, SYS_membarrier, SYS_mprotect, SYS_rseq,   SYS_set_robust_list};

// A job's answer is one of them.
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30, kMaxDescriptors = 8;

constexpr uint32_t kErrno = SECCOMP_RET_ERRNO | (EPERM & SECCOMP_RET_DATA);

class Filter {
 public:
  // Of a compiler.
  Filter() {
    Begin();
    // Limits of itself alone, and of a descriptor what cannot have signals sent to others (F_SETOWN).
    OnArgument(SYS_prlimit64, 0, {0});
    OnArgument(SYS_fcntl, 1, {F_GETFD, F_SETFD, F_GETFL, F_ADD_SEALS, F_GET_SEALS});
    // Memory, but never as code.
    OnArgumentWithout(SYS_mmap, 2, PROT_EXEC);
    OnArgumentWithout(SYS_mprotect, 2, PROT_EXEC);
    Return(kErrno);
  }

  // Of a process that runs programs on these threads.
  explicit Filter(const std::vector<uint32_t>& threads) {
    Begin();
    for (const int call : kAllowedToRun) On(call, SECCOMP_RET_ALLOW);
    // Its own memory alone, which RLIMIT_DATA counts: what it shares with the server is there.
    OnArgumentWithout(SYS_mmap, 3, MAP_SHARED);
    // Where its own threads run, and nobody else's.
    OnArgument(SYS_sched_setaffinity, 0, threads);
    Return(kErrno);
  }

  // For all threads of the process.
  absl::Status Install() {
    const sock_fprog program = {static_cast<unsigned short>(code_.size()), code_.data()};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
      return Refused("seccomp");
    return absl::OkStatus();
  }

 private:
  void Begin() {
    Load(offsetof(seccomp_data, arch));
    Jump(BPF_JEQ, kArchitecture, 1, 0);
    Return(SECCOMP_RET_KILL_PROCESS);
    Load(offsetof(seccomp_data, nr));
    for (const int call : kDeadly) On(call, SECCOMP_RET_KILL_PROCESS);
    for (const int call : kAllowed) On(call, SECCOMP_RET_ALLOW);
    // A signal to itself alone: abort() raises one.
    OnArgument(SYS_tgkill, 0, {static_cast<uint32_t>(getpid())});
  }
  void Add(uint16_t code, uint32_t k, uint8_t yes = 0, uint8_t no = 0) { code_.push_back({code, yes, no, k}); }
  void Load(size_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void Jump(uint16_t how, uint32_t value, uint8_t yes, uint8_t no) { Add(BPF_JMP | how | BPF_K, value, yes, no); }
  void Return(uint32_t what) { Add(BPF_RET | BPF_K, what); }

  void On(int call, uint32_t what) {
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, 1);
    Return(what);
  }
  // The low half of an argument: on machines that are little-endian, as all of these are, it is the first.
  static size_t Argument(size_t index) { return offsetof(seccomp_data, args) + 8 * index; }
  // Allows the call with one of these values.
  void OnArgument(int call, size_t index, const std::vector<uint32_t>& values) {
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, static_cast<uint8_t>(2 * values.size() + 2));
    Load(Argument(index));
    for (const uint32_t value : values) {
      Jump(BPF_JEQ, value, 0, 1);
      Return(SECCOMP_RET_ALLOW);
    }
    Return(kErrno);
  }
  void OnArgumentWithout(int call, size_t index, uint32_t bits) {
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, 4);
    Load(Argument(index));
    Jump(BPF_JSET, bits, 1, 0);
    Return(SECCOMP_RET_ALLOW);
    Return(kErrno);
  }

  std::vector<sock_filter> code_;
};

// No path is any more, but to read what is in `readable`. A kernel without Landlock (before 5.13, or told so) has
// seccomp alone, by which nothing is opened either.
absl::Status CloseFiles(const std::vector<const char*>& readable = {}) {
  landlock_ruleset_attr rules = {};
  rules.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;  // all of the first version
  const long set = syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
  if (set < 0) return absl::OkStatus();
  for (const char* folder : readable) {
    const int fd = open(folder, O_PATH | O_CLOEXEC);
    if (fd < 0) continue;  // then nobody reads it
    landlock_path_beneath_attr rule = {};
    rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    rule.parent_fd = fd;
    syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(fd);
  }
  const long closed = syscall(SYS_landlock_restrict_self, set, 0);
  close(static_cast<int>(set));
  return closed == 0 ? absl::OkStatus() : Refused("landlock");
}

struct Taken {
  uint64_t addresses = 0;
  uint64_t data = 0;  // what it may write, but for what is shared
};

Taken TakenBytes() {
  uint64_t all = 0, resident = 0, shared = 0, text = 0, libraries = 0, data = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> shared >> text >> libraries >> data;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {all * page, data * page};
}

absl::Status Limit(decltype(RLIMIT_AS) resource, uint64_t most, const char* what) {
  const rlimit limit = {most, most};
  return setrlimit(resource, &limit) == 0 ? absl::OkStatus() : Refused(what);
}

// What threads that begin after it have, too.
absl::Status GiveUpRights() {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Refused("PR_SET_PDEATHSIG");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return Refused("PR_SET_NO_NEW_PRIVS");
  return Limit(RLIMIT_CORE, 0, "RLIMIT_CORE");
}

// As many as a filter can name.
std::vector<uint32_t> OwnThreads() {
  constexpr size_t kMost = 120;
  std::vector<uint32_t> threads = {0};
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    if (threads.size() == kMost) break;
    threads.push_back(static_cast<uint32_t>(std::stoul(entry.path().filename().string())));
  }
  return threads;
}

}  // namespace

std::vector<std::string> BareEnvironment() {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view name = absl::string_view(*entry).substr(0, absl::string_view(*entry).find('='));
    if (name == "LD_LIBRARY_PATH" || absl::EndsWith(name, "SAN_OPTIONS")) kept.push_back(*entry);
  }
  return kept;
}

void BeEndedFirst() {
  // Where /proc cannot be written, it is as likely to be ended as any other process of its size.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
}

int LandlockVersion() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

bool CloseFrom(int first) {
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return true;
  // A kernel before 5.9. The folder's own descriptor is among them, and closed by then.
  std::vector<int> descriptors;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const int fd = std::stoi(entry.path().filename().string());
    if (fd >= first) descriptors.push_back(fd);
  }
  for (const int fd : descriptors) close(fd);
  return !failed && !descriptors.empty();
}

absl::Status BeginRunnerSandbox() {
  if (absl::Status rights = GiveUpRights(); !rights.ok()) return rights;
  return CloseFiles({"/proc", "/sys"});
}

absl::Status EnterRunnerSandbox(uint64_t memory_bytes, uint32_t descriptors) {
  // Before nothing can be opened any more.
  const std::vector<uint32_t> threads = OwnThreads();
  const Taken taken = TakenBytes();
  if (taken.addresses == 0) return absl::UnavailableError("sandbox: /proc/self/statm cannot be read");
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return Refused("PR_SET_DUMPABLE");
  if (kSanitized) return absl::OkStatus();
  if (absl::Status files = Limit(RLIMIT_FSIZE, 0, "RLIMIT_FSIZE"); !files.ok()) return files;
  if (absl::Status files = Limit(RLIMIT_NOFILE, descriptors, "RLIMIT_NOFILE"); !files.ok()) return files;
  if (absl::Status memory = Limit(RLIMIT_AS, taken.addresses + memory_bytes, "RLIMIT_AS"); !memory.ok()) return memory;
  // By addresses alone, what is mapped with the server could be given up for as much of its own.
  if (absl::Status data = Limit(RLIMIT_DATA, taken.data + memory_bytes, "RLIMIT_DATA"); !data.ok()) return data;
  return Filter(threads).Install();
}

absl::Status EnterSandbox(uint64_t memory_bytes) {
  if (absl::Status rights = GiveUpRights(); !rights.ok()) return rights;
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return Refused("PR_SET_DUMPABLE");
  // Memory behind descriptors is no address space: a few of them, each of some size.
  if (absl::Status files = Limit(RLIMIT_FSIZE, kMaxFileBytes, "RLIMIT_FSIZE"); !files.ok()) return files;
  if (kSanitized) return CloseFiles();
  if (absl::Status files = Limit(RLIMIT_NOFILE, kMaxDescriptors, "RLIMIT_NOFILE"); !files.ok()) return files;
  if (memory_bytes != 0) {
    if (absl::Status memory = Limit(RLIMIT_AS, TakenBytes().addresses + memory_bytes, "RLIMIT_AS"); !memory.ok())
      return memory;
  }
  if (absl::Status closed = CloseFiles(); !closed.ok()) return closed;
  return Filter().Install();
}

}  // namespace kiln::server
