// Numbers and bytes in a row, for messages between processes of one build.
#ifndef KILN_RUNTIME_CLUSTER_PACKING_H_
#define KILN_RUNTIME_CLUSTER_PACKING_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"

namespace kiln::runtime::cluster {

class Packer {
 public:
  template <typename T>
  Packer& Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Packer& Bytes(absl::string_view bytes) {
    Number<uint64_t>(bytes.size());
    bytes_.append(bytes.data(), bytes.size());
    return *this;
  }
  // As they are, for what is the last.
  Packer& Rest(absl::string_view bytes) {
    bytes_.append(bytes.data(), bytes.size());
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads back what a Packer wrote, in that order. It comes from another rank of this
// very build, so what is not as it should be is our own fault.
class Unpacker {
 public:
  // `bytes` must live as long as what is unpacked as bytes.
  explicit Unpacker(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Skip(sizeof(value)).data(), sizeof(value));
    return value;
  }
  absl::string_view Bytes() { return Skip(Number<uint64_t>()); }
  absl::string_view Rest() { return Skip(bytes_.size()); }

 private:
  absl::string_view Skip(uint64_t bytes) {
    KILN_CHECK(bytes <= bytes_.size());
    const absl::string_view skipped = bytes_.substr(0, bytes);
    bytes_.remove_prefix(bytes);
    return skipped;
  }

  absl::string_view bytes_;
};

}  // namespace kiln::runtime::cluster

#endif  // KILN_RUNTIME_CLUSTER_PACKING_H_
