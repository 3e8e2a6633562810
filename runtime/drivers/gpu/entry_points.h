// Functions of a library that is found when the program runs, and need not be there.
#ifndef KILN_RUNTIME_DRIVERS_GPU_ENTRY_POINTS_H_
#define KILN_RUNTIME_DRIVERS_GPU_ENTRY_POINTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace kiln::runtime::gpu {

struct EntryPoint {
  const char* symbol;
  bool optional;
  void* address;
};

// A table of them; its members are Entry.
class EntryPoints {
 public:
  enum Need { kNeeded, kOptional };

  EntryPoints() = default;
  EntryPoints(const EntryPoints&) = delete;
  EntryPoints& operator=(const EntryPoints&) = delete;

  // Opens the first of `libraries` that is there, for good: vendors' libraries start threads.
  // NOT_FOUND with what the system says of the first if none is; FAILED_PRECONDITION naming
  // the symbol that it lacks.
  absl::Status Bind(const std::vector<std::string>& libraries);

  template <typename Signature>
  class Entry;

 private:
  std::vector<EntryPoint*> all_;
};

// Entry<int(void**, size_t)> Allocate{this, "cuMemAlloc_v2"};
template <typename Signature>
class EntryPoints::Entry : private EntryPoint {
 public:
  Entry(EntryPoints* table, const char* symbol, Need need = kNeeded) : EntryPoint{symbol, need == kOptional, nullptr} {
    table->all_.push_back(this);
  }

  const char* name() const { return symbol; }
  // Null only if it is optional and the library lacks it.
  Signature* function() const { return reinterpret_cast<Signature*>(address); }
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_ENTRY_POINTS_H_
