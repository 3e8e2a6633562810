// Device memory that the client owns by handle.
#ifndef KILN_CLIENT_CPP_DEVICE_BUFFER_H_
#define KILN_CLIENT_CPP_DEVICE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/cpp/arrays/dtype.h"
#include "client/cpp/transport/connection.h"
#include "kiln/v1/buffer_service.pb.h"
#include "kiln/v1/tensor.pb.h"

namespace kiln::client {

// Gives its handle back when it goes; moves, never copies.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Takes ownership of the handle in `description`.
  DeviceBuffer(std::shared_ptr<Connection> connection, v1::BufferDescription description)
      : connection_(std::move(connection)), description_(std::move(description)) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(connection_, other.connection_);
    std::swap(description_, other.description_);
    return *this;
  }
  ~DeviceBuffer() {
    if (connection_ != nullptr) connection_->FreeLater(description_.handle(), description_.bytes());
  }

  bool valid() const { return connection_ != nullptr; }
  uint64_t handle() const { return description_.handle(); }
  uint64_t bytes() const { return description_.bytes(); }
  v1::DType dtype() const { return description_.dtype(); }
  Shape shape() const { return Shape(description_.shape().begin(), description_.shape().end()); }
  const v1::BufferDescription& description() const { return description_; }

  // As messages name it, from byte `offset` on.
  v1::BufferRef Ref(uint64_t offset = 0) const {
    v1::BufferRef ref;
    ref.set_handle(handle());
    ref.set_offset(offset);
    return ref;
  }

 private:
  std::shared_ptr<Connection> connection_;
  v1::BufferDescription description_;
};

// A tensor on several devices: a buffer each, split along `axis`; without one, whole on
// each.
struct DeviceShards {
  std::vector<DeviceBuffer> shards;
  std::optional<uint32_t> axis;

  // The whole's.
  Shape shape() const {
    Shape whole = shards.empty() ? Shape() : shards[0].shape();
    if (axis && *axis < whole.size()) whole[*axis] *= static_cast<int64_t>(shards.size());
    return whole;
  }
  v1::DType dtype() const { return shards.empty() ? v1::DTYPE_UNSPECIFIED : shards[0].dtype(); }
  std::vector<v1::BufferRef> Refs() const {
    std::vector<v1::BufferRef> refs;
    for (const DeviceBuffer& shard : shards) refs.push_back(shard.Ref());
    return refs;
  }
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_DEVICE_BUFFER_H_
