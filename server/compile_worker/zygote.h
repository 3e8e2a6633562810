// The process that workers are born of: it has the compiler loaded and warm, no thread, and nothing of any client's.
#ifndef KILN_SERVER_COMPILE_WORKER_ZYGOTE_H_
#define KILN_SERVER_COMPILE_WORKER_ZYGOTE_H_

#include <cstdint>

#include "server/engine/programs/compile_fn.h"

namespace kiln::server {

// The descriptor by which a zygote hears the server, and the word by which a program knows that it is one.
inline constexpr int kZygoteSocket = 3;
inline constexpr char kZygoteFlag[] = "--compile_worker";

// What goes over the sockets, a byte and a descriptor each (sealed_memory.h):
//   to a zygote     'W' job             compile it yourself: it is the server's, to be warm; answered with 'D'
//                   'F' socket          a worker that hears this socket; answered with 'P' pidfd
//   from a worker   'M' /proc/self/statm   once, before all else
//   to a worker     'J' job             answered with 'R' result
inline constexpr char kWarm = 'W', kDone = 'D', kFork = 'F', kProcess = 'P', kMemory = 'M', kJob = 'J', kResult = 'R';

// Serves until the server hangs up; the process's exit status. Jobs are done by `compiler`, in processes that may
// take `memory_bytes` more than this one has.
int RunZygote(const CompilerInProcess& compiler, uint64_t memory_bytes);

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_ZYGOTE_H_
