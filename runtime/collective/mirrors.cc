#include "runtime/collective/mirrors.h"

#include "base/error.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::collective {
namespace {

hal::Device& OwnerOf(const hal::BufferSlice& slice) { return const_cast<hal::Device&>(*slice.buffer->device()); }

}  // namespace

char* Mirrors::Place(uint32_t rank, const hal::BufferSlice& slice, bool input) {
  if (slice.host_data() != nullptr) return static_cast<char*>(slice.host_data());
  mirrors_.push_back({rank, slice, input, std::make_unique<char[]>(slice.bytes)});
  return mirrors_.back().bytes.get();
}

absl::Status Mirrors::Fetch(uint32_t rank) const {
  for (const Mirror& mirror : mirrors_) {
    if (mirror.rank != rank || !mirror.input) continue;
    const hal::BufferSlice& slice = mirror.slice;
    KILN_RETURN_IF_ERROR(OwnerOf(slice).Load(slice.device_data(), slice.bytes, mirror.bytes.get()));
  }
  return absl::OkStatus();
}

absl::Status Mirrors::BringBack(uint32_t rank) const {
  for (const Mirror& mirror : mirrors_) {
    if (mirror.rank != rank || mirror.input) continue;
    const hal::BufferSlice& slice = mirror.slice;
    KILN_RETURN_IF_ERROR(OwnerOf(slice).Store(mirror.bytes.get(), slice.bytes, slice.device_data()));
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime::collective
