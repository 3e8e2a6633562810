#include "models/onnx/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace kiln::onnx {
namespace {

// Closed when it goes.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  void Replace(int descriptor) {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = descriptor;
  }

 private:
  int descriptor_;
};

absl::Status Bad(const std::string& location, absl::string_view reason) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("external_data.location");
  return MakeError(detail, absl::StrCat("external data \"", absl::CHexEscape(location.substr(0, 200)), "\": ", reason));
}

}  // namespace

// One step of the path at a time, each opened relative to the one before and never through a
// link: what is checked is what is read, whatever is renamed meanwhile.
absl::StatusOr<std::string> ReadExternal(const std::string& folder, const std::string& location, int64_t offset,
                                         int64_t length) {
  if (location.empty() || location.front() == '/' || location.find('\0') != std::string::npos) {
    return Bad(location, "the location is a relative path below the model's folder");
  }
  std::vector<std::string> parts = absl::StrSplit(location, '/');
  if (parts.front() == "." && parts.size() > 1) parts.erase(parts.begin());
  for (const std::string& part : parts) {
    if (part.empty() || part == "." || part == "..")
      return Bad(location, "a path without empty parts, \".\" and \"..\"");
  }
  File at(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; i < parts.size() && at.get() >= 0; ++i) {
    const int kind = i + 1 < parts.size() ? O_DIRECTORY : O_NONBLOCK;
    at.Replace(openat(at.get(), parts[i].c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind));
  }
  if (at.get() < 0) {
    if (errno == ELOOP || errno == ENOTDIR) return Bad(location, "links are not followed");
    return absl::NotFoundError(
        absl::StrCat("external data \"", absl::CHexEscape(location.substr(0, 200)), "\": ", std::strerror(errno)));
  }
  struct stat about;
  if (fstat(at.get(), &about) != 0 || !S_ISREG(about.st_mode)) return Bad(location, "it is no regular file");
  if (offset < 0 || length < 0 || offset > about.st_size || length > about.st_size - offset) {
    return Bad(location, absl::StrCat(length, " bytes from ", offset, " on are not in a file of ", about.st_size));
  }
  std::string bytes(static_cast<size_t>(length), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(at.get(), bytes.data() + done, bytes.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Bad(location, "the file ended while it was read");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace kiln::onnx
