#include "tests/support/fake_gpu/fake_control.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace kiln::testing {

Fake::Fake(const std::string& library) {
  path_ = std::string(std::getenv("TEST_SRCDIR")) + "/kiln/tests/support/" + library;
  void* const handle = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) ADD_FAILURE() << dlerror();
  control_ = reinterpret_cast<const char* (*)(const char*)>(dlsym(handle, "KilnFake"));
  (*this)("reset");
}

std::vector<std::string> Fake::Calls(const std::string& name) const {
  std::vector<std::string> calls;
  std::stringstream lines((*this)("calls"));
  for (std::string line; std::getline(lines, line);) {
    if (line == name || line.compare(0, name.size() + 1, name + " ") == 0) calls.push_back(line);
  }
  return calls;
}

}  // namespace kiln::testing
