// What a process gives up before it reads a stranger's graph, or runs his program.
#ifndef KILN_SERVER_COMPILE_WORKER_SANDBOX_H_
#define KILN_SERVER_COMPILE_WORKER_SANDBOX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kiln::server {

// From now on this process, which has one thread, can compute, take and give back memory, and use the descriptors that
// it has, and no more: it opens no file (Landlock, where the kernel has it) and no socket, starts no thread and no
// process, maps no memory as code, is seen by no debugger and leaves no core, and takes at most `memory_bytes` more
// address space than it has (0: as much as there is). It ends when its parent does. Under a sanitizer, whose runtime
// needs more, memory and calls are not restricted. UNAVAILABLE if the kernel refuses.
absl::Status EnterSandbox(uint64_t memory_bytes);

// The same for a process that runs programs, in two steps. The first, while it has one thread: it ends when the thread
// that started it does, and opens nothing but to read what the system says of the machine, nor do threads that it
// starts. The second, when all its threads are there and before it reads anything of a stranger's: as EnterSandbox,
// but for code, which it may map; it keeps at most so many `descriptors`.
absl::Status BeginRunnerSandbox();
absl::Status EnterRunnerSandbox(uint64_t memory_bytes, uint32_t descriptors);

// Where memory is short, the kernel ends this process before others, and those that it starts: what it did is done anew
// elsewhere, and the server has everybody's data. Anybody may say so of himself. To be called before the sandbox.
void BeEndedFirst();

// The version of Landlock that this kernel has, 0: none. Then nothing is opened for want of seccomp's leave alone.
int LandlockVersion();

// Of this process's environment, what a program needs to start. The rest may hold secrets, which are none of a
// sandbox's business.
std::vector<std::string> BareEnvironment();

// Closes all descriptors from `first` on. False if it cannot find out which there are.
bool CloseFrom(int first);

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_SANDBOX_H_
