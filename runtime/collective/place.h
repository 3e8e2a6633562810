// Where a tensor of a collective lies, or a part of one.
#ifndef KILN_RUNTIME_COLLECTIVE_PLACE_H_
#define KILN_RUNTIME_COLLECTIVE_PLACE_H_

#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::collective {

struct Place {
  hal::Device* device = nullptr;  // null where a rank has none
  hal::BufferSlice slice;

  const char* data(uint64_t offset = 0) const { return static_cast<const char*>(slice.device_data()) + offset; }
  char* writable(uint64_t offset = 0) const { return static_cast<char*>(slice.device_data()) + offset; }
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_PLACE_H_
