// PTX as the fake of NVIDIA's driver loads and runs it.
#ifndef KILN_TESTS_SUPPORT_FAKE_CUDA_PTX_PROGRAM_H_
#define KILN_TESTS_SUPPORT_FAKE_CUDA_PTX_PROGRAM_H_

#include <memory>
#include <string>

#include "tests/support/fake_gpu/world.h"

namespace kiln::testing {

// Null if it is no PTX, with the reason in `fault`.
std::unique_ptr<fake_gpu::Program> LoadPtx(const std::string& text, std::string& fault);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_FAKE_CUDA_PTX_PROGRAM_H_
