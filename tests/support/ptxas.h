// NVIDIA's assembler, on computers that have it.
#ifndef KILN_TESTS_SUPPORT_PTXAS_H_
#define KILN_TESTS_SUPPORT_PTXAS_H_

#include <string>

namespace kiln::testing {

struct Assembled {
  bool taken;
  std::string said;  // with registers, spills and shared memory of each kernel
};

// `ptxas` is the program's path: the environment's KILN_PTXAS, which ./dev test sets.
Assembled Assemble(const std::string& ptxas, const std::string& arch, const std::string& ptx);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_PTXAS_H_
