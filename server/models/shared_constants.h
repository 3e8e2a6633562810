// Weights in the memory of a device, each once: models and versions of one that have the same constant share it.
#ifndef KILN_SERVER_MODELS_SHARED_CONSTANTS_H_
#define KILN_SERVER_MODELS_SHARED_CONSTANTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/account.h"
#include "base/blake3.h"
#include "runtime/hal/device.h"
#include "server/engine/memory/buffer_table.h"

namespace kiln::server {

// One thread at a time. What it gave outlives it.
class SharedConstants {
 public:
  // `account` pays for the memory, and outlives it.
  explicit SharedConstants(Account* account) : account_(account) {}

  // Memory of `device` that holds `bytes`, a tensor of this type and shape: as long as anybody has the record, further
  // calls give the same. OUT_OF_MEMORY. Blocks for the device.
  absl::StatusOr<BufferTable::Record> Hold(runtime::hal::Device& device, v1::DType dtype,
                                           absl::Span<const int64_t> shape, absl::string_view bytes);

  // Forgets what nobody has any more.
  void RemoveExpired();
  // Tensors that are held.
  size_t count() const;

 private:
  Account* const account_;
  // By digest of device, dtype, shape and bytes.
  absl::flat_hash_map<Digest, std::weak_ptr<const BufferRecord>> held_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SHARED_CONSTANTS_H_
