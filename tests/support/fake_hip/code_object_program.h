// A code object as the fake of AMD's runtime loads and runs it.
#ifndef KILN_TESTS_SUPPORT_FAKE_HIP_CODE_OBJECT_PROGRAM_H_
#define KILN_TESTS_SUPPORT_FAKE_HIP_CODE_OBJECT_PROGRAM_H_

#include <memory>
#include <string>

#include "tests/support/fake_gpu/world.h"

namespace kiln::testing {

// No computer without a card runs AMD's machine code. What its kernels do is what the LLVM IR says that it was made
// from (tests/support/amd/machine.h), if `folder`, or one in it, has that as KILN_DUMP leaves it: *llvm.ll beside an
// *object.o of the same bytes. Kernels of other objects do nothing; of none does any if `folder` is empty.
//
// Null, with the reason in `fault`, for what is no code object, and for one that says other things of its kernels than
// the IR does.
std::unique_ptr<fake_gpu::Program> LoadCodeObject(const void* image, const std::string& folder, std::string& fault);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_FAKE_HIP_CODE_OBJECT_PROGRAM_H_
