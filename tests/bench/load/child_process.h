// A part of a bench in a process of its own, so that what it takes of memory and threads is its alone.
#ifndef KILN_TESTS_BENCH_LOAD_CHILD_PROCESS_H_
#define KILN_TESTS_BENCH_LOAD_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kiln::bench {

// One end of a connection between two processes; lines of text. Ends the process where the system does not do as it is
// told. One thread.
class Line {
 public:
  explicit Line(int file) : file_(file) {}
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void Say(const std::string& text);
  // Blocks. Empty once the other process is gone.
  std::string Hear();

 private:
  const int file_;
  std::string heard_;  // and not asked for yet
};

class ChildProcess {
 public:
  // Forks, so this process must have no threads yet and not have used gRPC. The child ends when `work` returns, which
  // it does when it hears nothing more.
  explicit ChildProcess(const std::function<void(Line&)>& work);
  // Waits until it has ended.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  Line& line() { return *line_; }
  // A row of /proc/PID/status: "VmRSS", in KiB; "Threads".
  uint64_t Status(const std::string& row) const;
  // What all its threads have taken of the cores.
  double CpuSeconds() const;

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Line> line_;
};

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_LOAD_CHILD_PROCESS_H_
