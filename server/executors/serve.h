// The executor's side: a process that runs programs, and nothing else.
#ifndef KILN_SERVER_EXECUTORS_SERVE_H_
#define KILN_SERVER_EXECUTORS_SERVE_H_

namespace kiln::server {

// Whether a program is called as an executor: with kExecutorFlag and what belongs to it (words.h).
bool IsExecutor(int argc, const char* const* argv);

// Is one, until the server hangs up; what main() returns. Before any thread starts.
int ServeExecutor(int argc, const char* const* argv);

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_SERVE_H_
