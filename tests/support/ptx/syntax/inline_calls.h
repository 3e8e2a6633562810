// Calls of functions in a text of PTX, before it is decoded.
#ifndef KILN_TESTS_SUPPORT_PTX_SYNTAX_INLINE_CALLS_H_
#define KILN_TESTS_SUPPORT_PTX_SYNTAX_INLINE_CALLS_H_

#include "absl/status/status.h"
#include "tests/support/ptx/syntax/syntax.h"

namespace kiln::testing::ptx {

// Puts the body of every function that an entry calls in the call's place, under names of its own: the machine
// has no calls. What is passed lies in local memory. INVALID_ARGUMENT for a function without a body, or one that
// calls itself.
absl::Status InlineCalls(ModuleText& text);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_SYNTAX_INLINE_CALLS_H_
