#include "server/shared_memory/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status Bad(absl::string_view message) { return MakeError(v1::BAD_SHARED_MEMORY, message); }

absl::Status Check(int memfd, uint64_t bytes) {
  struct statfs system;
  if (fstatfs(memfd, &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return Bad("it is no memfd of ordinary pages; make it with memfd_create, without MFD_HUGETLB");
  }
  const int seals = fcntl(memfd, F_GET_SEALS);
  if (seals < 0) return Bad("it cannot be sealed; make it with memfd_create and MFD_ALLOW_SEALING");
  if ((seals & F_SEAL_SHRINK) == 0) return Bad("it may shrink; seal it with F_SEAL_SHRINK before it is handed over");
  // In this order: what is sealed stays as large as it is found.
  struct stat file;
  if (fstat(memfd, &file) != 0 || file.st_size < 0) return Bad("its size cannot be had");
  if (const auto has = static_cast<uint64_t>(file.st_size); has < bytes) {
    return Bad(absl::StrCat("it has ", has, " bytes, and was said to have ", bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<SharedRegion>> SharedRegion::Map(int memfd, uint64_t bytes) {
  if (bytes == 0) return Bad("shared memory of no bytes");
  KILN_RETURN_IF_ERROR(Check(memfd, bytes));
  // All pages now, so that no transfer has to wait for them.
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd, 0);
  if (data == MAP_FAILED) return Bad(absl::StrCat("it cannot be mapped to read and write: ", std::strerror(errno)));
  return std::shared_ptr<SharedRegion>(new SharedRegion(static_cast<char*>(data), bytes));
}

SharedRegion::~SharedRegion() { munmap(data_, bytes_); }

}  // namespace kiln::server
