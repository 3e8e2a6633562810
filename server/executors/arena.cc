#include "server/executors/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

constexpr uint64_t kPage = 4096;
// Between where programs are put and where their libraries are, on all systems that we run on: so
// that a process which starts anew has the same addresses free.
constexpr uint64_t kFirst = uint64_t{1} << 45, kEnd = kFirst + (uint64_t{1} << 44), kStep = uint64_t{1} << 36;

static_assert(sizeof(std::atomic<bool>) == 1 && std::atomic<bool>::is_always_lock_free);

bool Map(int fd, uint64_t at, uint64_t bytes) {
  void* const wanted = reinterpret_cast<void*>(at);
  void* const got =
      mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
  if (got == wanted) return true;
  if (got != MAP_FAILED) munmap(got, bytes);  // a kernel that takes the place for a wish
  return false;
}

absl::Status NoArena(absl::string_view what) {
  return MakeError(v1::OUT_OF_MEMORY, absl::StrCat("memory for an executor: ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Arena>> Arena::Make(uint64_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  const uint64_t all = bytes + kControlBytes;
  Descriptor memory(memfd_create("kiln-executor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return NoArena("memfd_create");
  if (ftruncate(memory.get(), static_cast<off_t>(all)) != 0) return NoArena("ftruncate");
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return NoArena("F_ADD_SEALS");
  for (uint64_t at = kFirst; at < kEnd && all <= kEnd - at; at += kStep) {
    if (Map(memory.get(), at, all)) return std::unique_ptr<Arena>(new Arena(std::move(memory), at, bytes));
    if (errno != EEXIST) return NoArena("mmap");
  }
  errno = ENOMEM;
  return NoArena("no addresses are left");
}

absl::StatusOr<std::unique_ptr<Arena>> Arena::Join(int fd, uint64_t base, uint64_t bytes) {
  Descriptor memory(fd);
  if (!Map(fd, base, bytes + kControlBytes)) return NoArena("mmap");
  return std::unique_ptr<Arena>(new Arena(std::move(memory), base, bytes));
}

Arena::~Arena() { munmap(reinterpret_cast<void*>(base_), bytes_ + kControlBytes); }

void Arena::Clear(uint64_t address, uint64_t bytes) {
  void* const data = reinterpret_cast<void*>(address);
  if (address % kPage == 0 && bytes % kPage == 0 && madvise(data, bytes, MADV_REMOVE) == 0) return;
  std::memset(data, 0, bytes);
}

}  // namespace kiln::server
