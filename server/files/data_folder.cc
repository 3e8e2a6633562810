#include "server/files/data_folder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// One pread reads at most this many.
constexpr uint64_t kMaxAtOnce = uint64_t{1} << 30;

absl::Status FileError(v1::ErrorCode code, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field("file");
  return MakeError(detail, message);
}

}  // namespace

DataFile::~DataFile() { close(descriptor_); }

absl::Status DataFile::Read(uint64_t offset, uint64_t bytes, void* to) const {
  char* end = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t read = pread(descriptor_, end, std::min(bytes, kMaxAtOnce), static_cast<off_t>(offset));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return FileError(v1::BAD_ARGUMENT, absl::StrCat("the file cannot be read: ", std::strerror(errno)));
    if (read == 0) return FileError(v1::BAD_ARGUMENT, absl::StrCat("the file ends at byte ", offset));
    end += read;
    offset += read;
    bytes -= read;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DataFolder>> DataFolder::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return absl::NotFoundError(absl::StrCat("data folder ", path, ": ", std::strerror(errno)));
  return std::unique_ptr<DataFolder>(new DataFolder(descriptor));
}

DataFolder::~DataFolder() { close(descriptor_); }

absl::StatusOr<std::shared_ptr<const DataFile>> DataFolder::Find(const std::string& name) const {
  const absl::Status unknown =
      FileError(v1::BAD_ARGUMENT, "there is no such file in the server's data folder, or it leads out of it");
  if (name.find('\0') != std::string::npos) return unknown;
  open_how how{};
  // Nothing waits: opening a pipe for reading would, for somebody to write.
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const auto descriptor = static_cast<int>(syscall(SYS_openat2, descriptor_, name.c_str(), &how, sizeof(how)));
  if (descriptor < 0) return unknown;
  struct stat file;
  const bool good = fstat(descriptor, &file) == 0 && S_ISREG(file.st_mode);
  auto found = std::make_shared<const DataFile>(descriptor, good ? static_cast<uint64_t>(file.st_size) : 0);
  if (!good) return unknown;
  return found;
}

}  // namespace kiln::server
