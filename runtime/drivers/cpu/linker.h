// Puts object code into this process.
//
// JITLink does what a static linker and a loader would: it lays the object's
// sections out in fresh memory, applies the relocations and sets the page
// protections. Each object is a world of its own (two may define the same
// symbol) that sees the host symbols of symbols.h and nothing else.
#ifndef KILN_RUNTIME_DRIVERS_CPU_LINKER_H_
#define KILN_RUNTIME_DRIVERS_CPU_LINKER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln::runtime::cpu {

// Code in memory until it is destroyed; keeps its linker alive.
class LinkedObject {
 public:
  virtual ~LinkedObject() = default;
  // One for each symbol asked for, in that order.
  virtual absl::Span<void* const> addresses() const = 0;
};

// Safe from any thread.
class Linker {
 public:
  virtual ~Linker() = default;

  // `object` is an ELF relocatable of this machine's architecture, read during
  // the call only. INTERNAL_FAULT if it is malformed, has anything that object_check.h
  // does not allow, or lacks one of `symbols`.
  virtual absl::StatusOr<std::unique_ptr<LinkedObject>> Link(absl::string_view object,
                                                             absl::Span<const std::string> symbols) = 0;
};

// `profile` registers the code with perf and gdb.
absl::StatusOr<std::shared_ptr<Linker>> CreateLinker(bool profile);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_LINKER_H_
