// Kernels of a few instructions, for the machine's own tests.
#ifndef KILN_TESTS_SUPPORT_PTX_EVALUATE_H_
#define KILN_TESTS_SUPPORT_PTX_EVALUATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/ptx/machine.h"

namespace kiln::testing::ptx {

// A register's width, 1 for a predicate, and what it holds.
struct Value {
  int bits = 32;
  uint64_t value = 0;
};

// What `opcode` makes of its sources, in a register of `bits`.
absl::StatusOr<uint64_t> Evaluate(const std::string& opcode, int bits, const std::vector<Value>& sources);

// A kernel "k" whose parameters are `out` and `in`: addresses in %out and %in. Registers: %p<20>, %h<20> of 16
// bits, %r<60> and %d<40> of 32 and 64. %r0 is the item's number. Runs it on one group of `items`.
absl::Status RunBody(const std::string& body, uint32_t items, std::vector<uint32_t>& out,
                     const std::vector<uint32_t>& in = {}, const LaunchLimits& limits = {});
std::string KernelOf(const std::string& body);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_EVALUATE_H_
