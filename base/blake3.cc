#include "base/blake3.h"

#include <new>

#include "llvm-c/blake3.h"

namespace kiln {
namespace {

llvm_blake3_hasher* Hasher(std::byte* state) { return std::launder(reinterpret_cast<llvm_blake3_hasher*>(state)); }

}  // namespace

Blake3::Blake3() {
  static_assert(sizeof(llvm_blake3_hasher) == sizeof(state_) && alignof(llvm_blake3_hasher) <= 8);
  // Default-initialised: the stack of chaining values is written before use.
  llvm_blake3_hasher_init(new (state_) llvm_blake3_hasher);
}

void Blake3::Reset() { llvm_blake3_hasher_reset(Hasher(state_)); }

void Blake3::Update(const void* data, size_t size) { llvm_blake3_hasher_update(Hasher(state_), data, size); }

Digest Blake3::Finish() const {
  Digest digest;
  const auto* hasher = std::launder(reinterpret_cast<const llvm_blake3_hasher*>(state_));
  llvm_blake3_hasher_finalize(hasher, digest.bytes.data(), digest.bytes.size());
  return digest;
}

Digest Blake3Of(absl::string_view data) {
  Blake3 hasher;
  hasher.Update(data);
  return hasher.Finish();
}

Digest KeyedBlake3Of(const Digest& key, absl::string_view data) {
  static_assert(sizeof(key.bytes) == LLVM_BLAKE3_KEY_LEN);
  llvm_blake3_hasher hasher;
  llvm_blake3_hasher_init_keyed(&hasher, key.bytes.data());
  llvm_blake3_hasher_update(&hasher, data.data(), data.size());
  Digest digest;
  llvm_blake3_hasher_finalize(&hasher, digest.bytes.data(), digest.bytes.size());
  return digest;
}

}  // namespace kiln
