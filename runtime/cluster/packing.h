// Numbers and bytes in a row, for messages between processes of one build.
#ifndef KILN_RUNTIME_CLUSTER_PACKING_H_
#define KILN_RUNTIME_CLUSTER_PACKING_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

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

// Reads back what a Packer wrote, in that order. A message may be damaged, or made by who is no
// rank of this job: once it ends too early, all further numbers are 0 and all bytes none, and
// ok() says so. Whoever reads asks that before using what it has read.
class Unpacker {
 public:
  // `bytes` must live as long as what is unpacked as bytes.
  explicit Unpacker(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    T value = {};
    if (const absl::string_view taken = Skip(sizeof(value)); ok_) std::memcpy(&value, taken.data(), sizeof(value));
    return value;
  }
  absl::string_view Bytes() { return Skip(Number<uint64_t>()); }
  // How many of something follow, each of at least `bytes_each`: what is left bounds it, so
  // room may be made for them.
  template <typename T>
  T Count(uint64_t bytes_each) {
    const T count = Number<T>();
    if (count <= bytes_.size() / bytes_each) return count;
    ok_ = false;
    return 0;
  }
  absl::string_view Rest() { return Skip(bytes_.size()); }

  bool ok() const { return ok_; }

 private:
  absl::string_view Skip(uint64_t bytes) {
    if (bytes > bytes_.size()) ok_ = false;
    if (!ok_) return {};
    const absl::string_view skipped = bytes_.substr(0, bytes);
    bytes_.remove_prefix(bytes);
    return skipped;
  }

  absl::string_view bytes_;
  bool ok_ = true;
};

// INTERNAL_FAULT: what a message of another rank is, or names, that it should not.
inline absl::Status BadMessage(absl::string_view what) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat("a message between ranks ", what));
}

}  // namespace kiln::runtime::cluster

#endif  // KILN_RUNTIME_CLUSTER_PACKING_H_
