// A client's memory, mapped by the server too.
//
// The client makes a memfd, fills and reads it in place, and hands it over once; from
// then on bytes travel between it and a device in one copy, and none through a socket.
// What is mapped must never fault: a file that shrinks under its mapping, or that finds
// no page, kills whoever touches it. So a file is taken only if it can do neither.
#ifndef KILN_SERVER_SHARED_MEMORY_REGION_H_
#define KILN_SERVER_SHARED_MEMORY_REGION_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kiln::server {

// Unmapped with its last reference. The client may change its bytes at any time, also
// while they are copied: two reads of one byte may differ.
class SharedRegion {
 public:
  // Maps the first `bytes` bytes of the memfd, which stays the caller's to close.
  // BAD_SHARED_MEMORY unless it is an anonymous file of small pages (memfd_create
  // without MFD_HUGETLB), has that many bytes, may be written, and is sealed against
  // shrinking (F_SEAL_SHRINK).
  static absl::StatusOr<std::shared_ptr<SharedRegion>> Map(int memfd, uint64_t bytes);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  SharedRegion(char* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  char* const data_;
  const uint64_t bytes_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SHARED_MEMORY_REGION_H_
