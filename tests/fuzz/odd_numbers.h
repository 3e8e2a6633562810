// Numbers that go wrong: small ones, the edges of a dtype, NaN and infinity, and
// any bits at all.
#ifndef KILN_TESTS_FUZZ_ODD_NUMBERS_H_
#define KILN_TESTS_FUZZ_ODD_NUMBERS_H_

#include <cstdint>

#include "compiler/ir/dtype.h"
#include "tests/support/random.h"

namespace kiln::testing {

// In ConstArg's form.
uint64_t OddNumber(Random& random, compiler::DType dtype);

}  // namespace kiln::testing

#endif  // KILN_TESTS_FUZZ_ODD_NUMBERS_H_
