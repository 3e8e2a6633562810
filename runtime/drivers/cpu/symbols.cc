#include "runtime/drivers/cpu/symbols.h"

#include <cmath>
#include <cstring>

// libgcc's conversions to and from binary16, which LLVM calls where the CPU has
// no instruction for them. Only their addresses matter here, so they are
// declared without their real types.
#if defined(__x86_64__)
extern "C" {
void __extendhfsf2();
void __extendhfdf2();
void __truncsfhf2();
void __truncdfhf2();
}
#endif

namespace kiln::runtime::cpu {
namespace {

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

using F1 = float(float);
using F2 = float(float, float);
using D1 = double(double);
using D2 = double(double, double);

}  // namespace

absl::Span<const HostSymbol> HostSymbols() {
  static const HostSymbol symbols[] = {
      {"exp2f", Address<F1>(::exp2f)},
      {"log2f", Address<F1>(::log2f)},
      {"sinf", Address<F1>(::sinf)},
      {"cosf", Address<F1>(::cosf)},
      {"powf", Address<F2>(::powf)},
      {"fmodf", Address<F2>(::fmodf)},
      {"fmaf", Address<float(float, float, float)>(::fmaf)},
      {"truncf", Address<F1>(::truncf)},
      {"floorf", Address<F1>(::floorf)},
      {"exp2", Address<D1>(::exp2)},
      {"log2", Address<D1>(::log2)},
      {"sin", Address<D1>(::sin)},
      {"cos", Address<D1>(::cos)},
      {"pow", Address<D2>(::pow)},
      {"fmod", Address<D2>(::fmod)},
      {"fma", Address<double(double, double, double)>(::fma)},
      {"trunc", Address<D1>(::trunc)},
      {"floor", Address<D1>(::floor)},
      {"memcpy", Address<void*(void*, const void*, size_t)>(::memcpy)},
      {"memmove", Address<void*(void*, const void*, size_t)>(::memmove)},
      {"memset", Address<void*(void*, int, size_t)>(::memset)},
#if defined(__x86_64__)
      {"__extendhfsf2", Address(&__extendhfsf2)},
      {"__extendhfdf2", Address(&__extendhfdf2)},
      {"__truncsfhf2", Address(&__truncsfhf2)},
      {"__truncdfhf2", Address(&__truncdfhf2)},
#endif
  };
  return symbols;
}

}  // namespace kiln::runtime::cpu
