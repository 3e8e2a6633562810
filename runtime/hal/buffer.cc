#include "runtime/hal/buffer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime::hal {

std::shared_ptr<Buffer> Buffer::FindDerived(const DerivedKey& key) const {
  if (!has_derived_.load(std::memory_order_acquire)) return nullptr;
  absl::MutexLock lock(&derived_mutex_);
  for (const Derived& derived : derived_) {
    if (derived.key == key) return derived.made;
  }
  return nullptr;
}

void Buffer::KeepDerived(const DerivedKey& key, std::shared_ptr<Buffer> made) {
  std::vector<Derived> gone;  // freed without the lock
  absl::MutexLock lock(&derived_mutex_);
  if (derived_.size() == kMaxDerived) {
    gone.push_back(std::move(derived_.front()));
    derived_.erase(derived_.begin());
  }
  derived_.push_back({key, std::move(made)});
  has_derived_.store(true, std::memory_order_release);
}

void Buffer::ForgetDerived() {
  std::vector<Derived> gone;  // freed without the lock
  absl::MutexLock lock(&derived_mutex_);
  gone.swap(derived_);
  has_derived_.store(false, std::memory_order_release);
}

BufferSlice BufferSlice::Whole(std::shared_ptr<Buffer> buffer) {
  const uint64_t bytes = buffer->bytes();
  return BufferSlice{std::move(buffer), 0, bytes};
}

absl::Status CheckSlice(const BufferSlice& slice) {
  if (slice.buffer == nullptr) return MakeError(v1::OUT_OF_BOUNDS, "there is no buffer");
  const uint64_t size = slice.buffer->bytes();
  // Not offset + bytes > size, which could wrap.
  if (slice.offset <= size && slice.bytes <= size - slice.offset) return absl::OkStatus();
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_BOUNDS);
  detail.set_limit("buffer bytes");
  detail.set_limit_value(size);
  detail.set_used(slice.offset > size ? slice.offset : slice.bytes);
  return MakeError(std::move(detail), absl::StrCat(slice.bytes, " bytes at offset ", slice.offset,
                                                   " do not lie in a buffer of ", size, " bytes"));
}

bool Overlap(const BufferSlice& a, const BufferSlice& b) {
  if (a.buffer == nullptr || a.buffer != b.buffer || a.bytes == 0 || b.bytes == 0) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace kiln::runtime::hal
