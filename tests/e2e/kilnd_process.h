// kilnd as a process of its own: to be stopped, killed, and started again.
#ifndef KILN_TESTS_E2E_KILND_PROCESS_H_
#define KILN_TESTS_E2E_KILND_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln::e2e {

// The binary among the test's data.
std::string KilndPath();

// One kilnd; killed with the test if it has not ended.
class Kilnd {
 public:
  // Both its outputs go to the file `output`.
  explicit Kilnd(std::vector<std::string> flags, const std::string& output = "/dev/null");
  ~Kilnd();
  Kilnd(const Kilnd&) = delete;
  Kilnd& operator=(const Kilnd&) = delete;

  void Signal(int number) const;
  // The exit code; -1 if a signal killed it.
  int Wait();

 private:
  pid_t pid_ = -1;
};

// A kilnd on a free loopback port, once it serves; its files begin with `files`.
struct ServingKilnd {
  std::unique_ptr<Kilnd> process;
  std::string address;
};
ServingKilnd Serve(std::vector<std::string> flags, const std::string& files);

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_KILND_PROCESS_H_
