// A pattern over memory, again and again.
#ifndef KILN_RUNTIME_DRIVERS_HOST_FILL_BYTES_H_
#define KILN_RUNTIME_DRIVERS_HOST_FILL_BYTES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace kiln::runtime::host {

// As hal::Queue::Fill.
inline void FillBytes(char* to, uint64_t bytes, absl::string_view pattern) {
  if (bytes == 0) return;
  if (pattern.size() <= 1) {
    std::memset(to, pattern.empty() ? 0 : pattern[0], bytes);
    return;
  }
  // Doubles what is there already: few, long copies.
  uint64_t done = std::min<uint64_t>(pattern.size(), bytes);
  std::memcpy(to, pattern.data(), done);
  while (done < bytes) {
    const uint64_t more = std::min(done, bytes - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_FILL_BYTES_H_
