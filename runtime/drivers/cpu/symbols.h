// The only functions outside itself that generated code may call.
#ifndef KILN_RUNTIME_DRIVERS_CPU_SYMBOLS_H_
#define KILN_RUNTIME_DRIVERS_CPU_SYMBOLS_H_

#include "absl/types/span.h"

namespace kiln::runtime::cpu {

struct HostSymbol {
  const char* name;
  void* address;
};

// Memory, and what a CPU may lack: rounding toward zero, conversions between float
// formats. An object that names anything else does not link: there is no lookup
// in the process.
absl::Span<const HostSymbol> HostSymbols();

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_SYMBOLS_H_
