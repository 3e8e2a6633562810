// A fake of a vendor's library, as a test has it.
#ifndef KILN_TESTS_SUPPORT_FAKE_GPU_FAKE_CONTROL_H_
#define KILN_TESTS_SUPPORT_FAKE_GPU_FAKE_CONTROL_H_

#include <string>
#include <vector>

namespace kiln::testing {

class Fake {
 public:
  // The library of that name among the test's data, "fake_cuda/libfake_cuda.so"; reset.
  explicit Fake(const std::string& library);

  const std::string& path() const { return path_; }

  // See fake_gpu::World::Control.
  std::string operator()(const std::string& command) const { return control_(command.c_str()); }
  // Those of one entry point, of all that were written down; with their arguments.
  std::vector<std::string> Calls(const std::string& name) const;

 private:
  std::string path_;
  const char* (*control_)(const char*) = nullptr;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_FAKE_GPU_FAKE_CONTROL_H_
