// Products of the narrow numbers in words of 32 bits (kernel/dots.h), as numbers. Tested by compiler/kernel/dots_test.
#ifndef KILN_COMPILER_INTERP_WORD_TERMS_H_
#define KILN_COMPILER_INTERP_WORD_TERMS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/dtype.h"

namespace kiln::compiler {

// Lanes beside each other read as one of another dtype.
std::vector<uint64_t> WordsOf(absl::Span<const uint64_t> lanes, DType from, DType to);

// The t-th number of a word, of dtype `narrow`, in `wide`.
uint64_t TermOfWord(uint64_t word, int64_t t, DType narrow, DType wide);

// `sum` and the products of what is in the words `u` and `s`: of four uint8 and int8, or of two bfloat16 in float32.
uint64_t DotOfBytes(uint64_t u, uint64_t s, uint64_t sum);
uint64_t DotOfBfloats(uint64_t u, uint64_t s, uint64_t sum);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_WORD_TERMS_H_
