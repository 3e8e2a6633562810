#include "server/shared_memory/named_region.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxName = 255;  // of a file

absl::Status Bad(v1::ErrorCode code, absl::string_view field, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(std::string(field));
  return MakeError(std::move(detail), what);
}

std::string Quoted(absl::string_view key) {
  return absl::StrCat("\"", absl::CHexEscape(key.substr(0, kMaxName)), "\"");
}

// The file's name in its folder: one component, whose bytes may stand in a line of text.
absl::StatusOr<std::string> FileName(absl::string_view key) {
  const absl::string_view name = absl::StripPrefix(key, "/");
  const auto may_be = [](char c) { return c != '/' && absl::ascii_isprint(static_cast<unsigned char>(c)); };
  if (!name.empty() && name.size() <= kMaxName && name != "." && name != ".." && absl::c_all_of(name, may_be))
    return std::string(name);
  return Bad(v1::BAD_ARGUMENT, "key",
             absl::StrCat("the key ", Quoted(key), " is no name of shared memory: those are 1 to ", kMaxName,
                          " printable characters of ASCII, without \"/\" but at the beginning"));
}

absl::Status NotThere(absl::string_view key) {
  return Bad(v1::UNKNOWN_HANDLE, "key",
             absl::StrCat("there is no shared memory ", Quoted(key), " that is of the user who asks"));
}

bool IsOf(const struct stat& file, uint32_t user) { return S_ISREG(file.st_mode) && file.st_uid == user; }

}  // namespace

absl::StatusOr<std::shared_ptr<const NamedRegion>> NamedRegion::Open(int folder, absl::string_view key, uint64_t offset,
                                                                     uint64_t bytes, uint32_t user) {
  auto name = FileName(key);
  if (!name.ok()) return name.status();
  if (bytes == 0) return Bad(v1::BAD_ARGUMENT, "byte_size", "a region has one byte at least");
  struct stat file = {};
  // No link is followed, and nobody is waited for: neither who would write into a pipe, nor who has a lease.
  const int descriptor = openat(folder, name->c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    const bool is_own = fstatat(folder, name->c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0 && IsOf(file, user);
    if (!is_own) return NotThere(key);
    return Bad(v1::BAD_SHARED_MEMORY, "key",
               absl::StrCat("the server cannot read and write the shared memory ", Quoted(key), ": ",
                            std::strerror(error), "; let the server's user do both, by its mode or an ACL"));
  }
  std::shared_ptr<const NamedRegion> region(new NamedRegion(descriptor, key, offset, bytes));
  if (fstat(descriptor, &file) != 0 || !IsOf(file, user)) return NotThere(key);
  const auto size = static_cast<uint64_t>(std::max<off_t>(file.st_size, 0));
  if (offset > size || bytes > size - offset) {
    return Bad(v1::BAD_ARGUMENT, "byte_size",
               absl::StrCat("invalid offset + byte size: ", bytes, " bytes from ", offset, " on are not inside of ",
                            Quoted(key), ", which has ", size));
  }
  return region;
}

NamedRegion::~NamedRegion() { close(file_); }

absl::Status NamedRegion::Check(uint64_t offset, uint64_t bytes) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return absl::OkStatus();
  return Bad(v1::BAD_ARGUMENT, "shared_memory_byte_size",
             absl::StrCat("invalid offset + byte size: ", bytes, " bytes from ", offset,
                          " on are not inside of the region, which has ", bytes_));
}

absl::Status NamedRegion::Read(uint64_t offset, uint64_t bytes, char* to) const {
  KILN_RETURN_IF_ERROR(Check(offset, bytes));
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = pread(file_, to + done, bytes - done, static_cast<off_t>(offset_ + offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Bad(v1::BAD_SHARED_MEMORY, "key", absl::StrCat("cannot be read: ", std::strerror(errno)));
    if (got == 0) {
      return Bad(v1::BAD_SHARED_MEMORY, "key",
                 absl::StrCat("has become shorter since it was registered: of ", bytes, " bytes from ", offset,
                              " on it has ", done));
    }
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status NamedRegion::Write(uint64_t offset, absl::string_view from) const {
  KILN_RETURN_IF_ERROR(Check(offset, from.size()));
  // A write would make the file longer again, which is its owner's to do.
  struct stat file = {};
  if (fstat(file_, &file) != 0 || static_cast<uint64_t>(file.st_size) < offset_ + offset + from.size())
    return Bad(v1::BAD_SHARED_MEMORY, "key", "has become shorter since it was registered");
  for (uint64_t done = 0; done < from.size();) {
    const ssize_t put =
        pwrite(file_, from.data() + done, from.size() - done, static_cast<off_t>(offset_ + offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      return Bad(v1::BAD_SHARED_MEMORY, "key",
                 absl::StrCat("cannot be written: ", put < 0 ? std::strerror(errno) : "no byte was taken"));
    }
    done += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

bool NamedRegion::is_removed() const {
  struct stat file = {};
  return fstat(file_, &file) == 0 && file.st_nlink == 0;
}

}  // namespace kiln::server
