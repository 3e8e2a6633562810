// Memory of a client's that the server opens by its name: a file of /dev/shm, as shm_open makes it.
//
// Clients of the open inference protocol name such a file, and then the places of it where tensors are. A name is no
// right: whoever can say it would have the server read another's memory for it. So a file counts only if the user who
// asks owns it. And its owner can make it shorter at any time, under which a mapping faults and ends the process: so
// it is never mapped, but read and written as a file is, where too few bytes are an error like any other.
#ifndef KILN_SERVER_SHARED_MEMORY_NAMED_REGION_H_
#define KILN_SERVER_SHARED_MEMORY_NAMED_REGION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

// Safe from any thread. The client may change its bytes at any time, also while they are copied.
class NamedRegion {
 public:
  // `bytes` bytes from `offset` on of the file "key" or "/key" in `folder`, a descriptor that stays the caller's to
  // close. UNKNOWN_HANDLE, whose field is "key", if there is no file of that name that is `user`'s own, whatever else
  // there may be: nobody hears of others' files. BAD_SHARED_MEMORY for one that the server's own user may not open.
  // BAD_ARGUMENT for a name that is none ("key"), and for bytes that the file does not have ("byte_size").
  static absl::StatusOr<std::shared_ptr<const NamedRegion>> Open(int folder, absl::string_view key, uint64_t offset,
                                                                 uint64_t bytes, uint32_t user);
  ~NamedRegion();
  NamedRegion(const NamedRegion&) = delete;
  NamedRegion& operator=(const NamedRegion&) = delete;

  const std::string& key() const { return key_; }  // as it was said
  uint64_t offset() const { return offset_; }
  uint64_t bytes() const { return bytes_; }

  // BAD_ARGUMENT unless so many bytes from there on are the region's. `offset` counts from the region's beginning.
  absl::Status Check(uint64_t offset, uint64_t bytes) const;
  // Both wait for memory alone. As Check; BAD_SHARED_MEMORY if the file has become shorter, or the system has no memory
  // for what it has not held yet: then what came before is written.
  absl::Status Read(uint64_t offset, uint64_t bytes, char* to) const;
  absl::Status Write(uint64_t offset, absl::string_view from) const;

  // Whether the file has no name any more, so that nobody opens it anew.
  bool is_removed() const;

 private:
  NamedRegion(int file, absl::string_view key, uint64_t offset, uint64_t bytes)
      : file_(file), key_(key), offset_(offset), bytes_(bytes) {}

  const int file_;
  const std::string key_;
  const uint64_t offset_, bytes_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SHARED_MEMORY_NAMED_REGION_H_
