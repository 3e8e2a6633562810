#include "runtime/drivers/gpu/entry_points.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace kiln::runtime::gpu {

absl::Status EntryPoints::Bind(const std::vector<std::string>& libraries) {
  void* library = nullptr;
  std::string name, why;
  for (const std::string& candidate : libraries) {
    // Local: AMD's brings an LLVM of its own.
    library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    name = candidate;
    if (library != nullptr) break;
    if (why.empty()) why = dlerror();
  }
  if (library == nullptr) return absl::NotFoundError(why);
  for (EntryPoint* entry : all_) {
    entry->address = dlsym(library, entry->symbol);
    if (entry->address == nullptr && !entry->optional) {
      return absl::FailedPreconditionError(absl::StrCat(name, " has no ", entry->symbol));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime::gpu
