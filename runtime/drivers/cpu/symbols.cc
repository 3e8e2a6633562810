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
using D1 = double(double);

}  // namespace

absl::Span<const HostSymbol> HostSymbols() {
  static const HostSymbol symbols[] = {
      {"truncf", Address<F1>(::truncf)},
      {"trunc", Address<D1>(::trunc)},
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
