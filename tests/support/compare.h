// Whether two tensors are the same, within what docs/ir.md allows.
#ifndef KILN_TESTS_SUPPORT_COMPARE_H_
#define KILN_TESTS_SUPPORT_COMPARE_H_

#include <cstdint>
#include <string>

#include "compiler/interp/interp.h"

namespace kiln::testing {

// Of floats; integers are always compared bit for bit. Any NaN equals any NaN.
struct Tolerance {
  int64_t ulp = 0;         // units in the last place
  bool zero_signs = true;  // -0 is not 0
};

// How far apart two engines, each within docs/ir.md's bounds, may be on `op`.
Tolerance ToleranceOf(compiler::Op op, compiler::DType dtype);

// Empty if the element is the same, else what differs. Bits in ConstArg's form.
std::string CompareElement(compiler::DType dtype, uint64_t got, uint64_t want, Tolerance tolerance);

// The same for all elements; says which differ first, and how many do.
std::string CompareTensors(const compiler::HostTensor& got, const compiler::HostTensor& want, Tolerance tolerance);

// Every result and every slot written.
std::string CompareOutcomes(const compiler::InterpResult& got, const compiler::InterpResult& want, Tolerance tolerance);

// "-3", "0.1 (0x3dcccccd)".
std::string ElementToString(compiler::DType dtype, uint64_t bits);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_COMPARE_H_
