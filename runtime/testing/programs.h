// Small executables, and the short words in which tests bind and read buffers.
#ifndef KILN_RUNTIME_TESTING_PROGRAMS_H_
#define KILN_RUNTIME_TESTING_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/v1/executable.pb.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::testing {

// The object behind all of the executables below, compiled once a process. Its
// kernels, over floats:
//   add(out, a, b)       out[i] = a[i] + b[i]
//   double_it(x)         x[i] = x[i] + x[i]
//   trunc_of(out, a)     out[i] = truncf(a[i]), a call out of the object
//   spin(flag)           waits until the byte at flag is not 0
const std::string& KernelsObject();

// Results: [a + b]. Parameters: a (slot 0), b (slot 1), `n` floats each. Two
// steps by way of the arena and the constants: t = a + b, result = t + c where c
// is `n` floats of 0.5 kept as constants; so the result is a + b + 0.5.
v1::Executable AddProgram(int64_t n, const v1::Target& target);

// x (slot 7) is doubled in place; result 0 is x.
v1::Executable DoubleProgram(int64_t n, const v1::Target& target);

// Results: [a + 2 w]. Parameters: a (slot 0), w (slot 1), `n` floats each. 2 w is a
// preparation.
v1::Executable PreparedProgram(int64_t n, const v1::Target& target);

// Waits until its parameter, one byte (slot 0), is not zero. No result.
v1::Executable SpinProgram(const v1::Target& target);

// Sets its parameter, one byte (slot 0), and goes on until it is stopped. No result. It says nothing of what it
// costs, so a queue may take it to be short.
v1::Executable EndlessProgram(const v1::Target& target);

// A buffer of host-visible memory with these floats.
hal::BufferSlice Floats(hal::Device& device, const std::vector<float>& values);
std::vector<float> ReadFloats(const hal::BufferSlice& slice);

}  // namespace kiln::runtime::testing

#endif  // KILN_RUNTIME_TESTING_PROGRAMS_H_
