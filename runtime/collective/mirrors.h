// Tensors of a collective where the host sees them.
//
// Algorithms read and write all tensors as memory of this process. What a device keeps to itself
// is fetched into the host's memory before, and brought back after, by the device's own thread.
#ifndef KILN_RUNTIME_COLLECTIVE_MIRRORS_H_
#define KILN_RUNTIME_COLLECTIVE_MIRRORS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "runtime/hal/buffer.h"

namespace kiln::runtime::collective {

class Mirrors {
 public:
  // Where the host sees the slice, or will once it was fetched. One that is no input is only
  // brought back.
  char* Place(uint32_t rank, const hal::BufferSlice& slice, bool input);

  // Whether there is anything to fetch or to bring back.
  bool any() const { return !mirrors_.empty(); }

  // What is the rank's. From within work of its device's queue.
  absl::Status Fetch(uint32_t rank) const;
  absl::Status BringBack(uint32_t rank) const;

 private:
  struct Mirror {
    uint32_t rank;
    hal::BufferSlice slice;
    bool input;
    std::unique_ptr<char[]> bytes;
  };
  std::vector<Mirror> mirrors_;
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_MIRRORS_H_
