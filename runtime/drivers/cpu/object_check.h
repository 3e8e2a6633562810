// Whether object code is of the kind that our compiler makes, before a linker reads it.
//
// An object may come from a compile worker that was taken over, or from a disk. What it says of itself decides where
// the linker reads, how much memory it takes and which bytes it changes, so all of that is checked here by lists of
// what is allowed: kinds of sections, symbols and relocations, and that each lies inside of what it is a part of.
// What the code then does when it runs is not looked at.
#ifndef KILN_RUNTIME_DRIVERS_CPU_OBJECT_CHECK_H_
#define KILN_RUNTIME_DRIVERS_CPU_OBJECT_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln::runtime::cpu {

// Far beyond what a program of 16,384 kernels has.
struct ObjectLimits {
  uint64_t bytes = uint64_t{1} << 30;
  uint64_t sections = 1024;
  uint64_t symbols = uint64_t{1} << 20;
  uint64_t relocations = uint64_t{1} << 22;
};

// INTERNAL_FAULT, which names the section, symbol or relocation, for what is no ELF relocatable of this machine's
// architecture, has anything that is not allowed, or needs a symbol that symbols.h does not have. `object` begins at a
// multiple of 8.
absl::Status CheckObject(absl::string_view object, const ObjectLimits& limits = {});

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_OBJECT_CHECK_H_
