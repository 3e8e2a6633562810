// A compile worker whose compiler does what the graph's first tag says: a compiler that is at fault, or was taken over.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/compile_worker/zygote.h"

namespace kiln::server {
namespace {

// What became of a call that a worker may not make.
absl::Status Tried(long result) {
  return MakeError(v1::BAD_ARGUMENT, result >= 0 ? "it was allowed" : absl::StrCat("errno ", errno));
}

// Deeper than any stack, where `levels` is.
uint64_t Deep(uint64_t levels) {
  volatile char here[4096] = {1};
  return levels == 0 ? 0 : Deep(levels - 1) + static_cast<uint64_t>(here[levels % sizeof(here)]);
}

absl::StatusOr<CompiledProgram> Misbehave(const v1::Graph& graph, const v1::Target&, const compiler::Options&,
                                          compiler::CompileObserver*) {
  const std::string& what = graph.nodes_size() == 0 ? "" : graph.nodes(0).tag();
  if (what == "abort") std::abort();
  if (what == "exit") _exit(0);
  if (what == "hang") {
    for (volatile bool forever = true; forever;) {
    }
  }
  if (what == "segfault") *reinterpret_cast<volatile int*>(8) = 1;
  if (what == "recursion") return MakeError(v1::BAD_ARGUMENT, absl::StrCat(Deep(UINT64_MAX)));
  if (what == "memory") {
    std::vector<std::vector<char>> taken;
    for (int i = 0; i < 100; ++i) taken.emplace_back(size_t{1} << 30, 'x');
    return MakeError(v1::BAD_ARGUMENT, "100 GiB were there");
  }
  if (what == "fill") {  // as many MiB as the node has for a source
    const std::vector<char> taken(size_t{graph.nodes(0).src(0)} << 20, 'x');
    for (volatile bool forever = true; forever;) {
    }
  }
  if (what == "garbage") {  // on the socket, which is any descriptor but the standard ones
    for (int fd = 3; fd < 16; ++fd) send(fd, "????????", 8, MSG_NOSIGNAL);
    _exit(0);
  }
  if (what == "unsealed" || what == "zeros" || what == "large") {
    const int memory = memfd_create("x", MFD_ALLOW_SEALING);
    const std::string bytes(what == "large" ? 0 : 1000, '\xff');
    if (write(memory, bytes.data(), bytes.size()) < 0) std::abort();
    if (what == "large" && lseek(memory, int64_t{3} << 30, SEEK_SET) >= 0 && write(memory, "x", 1) < 0) std::abort();
    if (what != "unsealed") fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    char kind = kResult;
    iovec part = {&kind, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &memory, sizeof(int));
    for (int fd = 3; fd < 16; ++fd) sendmsg(fd, &message, MSG_NOSIGNAL);
    _exit(0);
  }
  if (what == "open") return Tried(open("/etc/passwd", O_RDONLY));
  if (what == "create") return Tried(open("/tmp/kiln_faulty", O_CREAT | O_WRONLY, 0600));
  if (what == "fork") return Tried(fork());
  if (what == "code") {
    void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return Tried(memory == MAP_FAILED ? -1 : 0);
  }
  if (what == "protect") {
    void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return Tried(mprotect(memory, 4096, PROT_READ | PROT_EXEC));
  }
  if (what == "kill") return Tried(kill(getppid(), SIGKILL));
  // Of another process, which would then take no more descriptors; and a signal of one's choice, sent to it.
  if (what == "limits") {
    const rlimit none = {0, 0};
    return Tried(prlimit(getppid(), RLIMIT_NOFILE, &none, nullptr));
  }
  if (what == "owner") return Tried(fcntl(0, F_SETOWN, getppid()));
  if (what == "environment")
    return MakeError(v1::BAD_ARGUMENT, std::getenv("KILN_SECRET") == nullptr ? "none" : "a secret");
  if (what == "socket") return Tried(socket(AF_INET, SOCK_STREAM, 0));
  if (what == "execute") return Tried(execl("/bin/true", "true", nullptr));
  if (what == "trace") return Tried(syscall(SYS_ptrace, 0, 0, 0, 0));
  v1::Executable executable;
  executable.set_object(absl::StrCat("process ", getpid()));
  return executable;
}

// The same of a kernel's graph: a good one may be followed by one schedule, one that talks by as many as it says.
absl::StatusOr<compiler::Choices> MisbehaveInChoice(const v1::Graph& kernel, const v1::Target&, const compiler::Limits&,
                                                    const std::string& from, uint32_t most,
                                                    const std::function<bool()>&) {
  KILN_RETURN_IF_ERROR(Misbehave(kernel, {}, {}, nullptr).status());
  if (kernel.nodes(0).tag() == "talk")
    return compiler::Choices{false, std::vector<std::string>(most + 1, "SWAP(0, 1)")};
  return compiler::Choices{true, {absl::StrCat(from, "; SWAP(0, 1)")}};
}

// The same of a gradient's graph; a good one says in which process it was made.
absl::StatusOr<v1::GradientResponse> MisbehaveInGradient(const v1::GradientRequest& request,
                                                         const compiler::Limits& limits) {
  KILN_RETURN_IF_ERROR(Misbehave(request.graph(), {}, {}, nullptr).status());
  v1::GradientResponse response;
  response.mutable_graph()->add_nodes()->set_tag(absl::StrCat("process ", getpid(), " nodes ", limits.max_nodes));
  return response;
}

}  // namespace
}  // namespace kiln::server

int main(int argc, char** argv) {
  uint64_t memory_bytes = 0;
  if (argc != 3 || std::string(argv[1]) != kiln::server::kZygoteFlag || !absl::SimpleAtoi(argv[2], &memory_bytes))
    return 2;
  return kiln::server::RunZygote(
      {kiln::server::Misbehave, kiln::server::MisbehaveInGradient, kiln::server::MisbehaveInChoice}, memory_bytes);
}
