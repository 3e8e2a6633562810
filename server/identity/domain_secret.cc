#include "server/identity/domain_secret.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

constexpr size_t kBytes = 32;

absl::Status CannotUse(const std::string& path, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot use ", path, ": ", why));
}

// Nothing if there is no such file.
absl::StatusOr<std::string> Read(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return errno == ENOENT ? absl::StatusOr<std::string>("") : CannotUse(path, std::strerror(errno));
  std::string secret(kBytes, '\0');
  const ssize_t got = read(file, &secret[0], kBytes);
  close(file);
  if (got != static_cast<ssize_t>(kBytes)) return CannotUse(path, "it has not the 32 bytes of a secret");
  return secret;
}

}  // namespace

absl::StatusOr<std::string> DomainSecret(absl::string_view folder) {
  std::string fresh(kBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&fresh[0]), kBytes) != 1) {
    return absl::UnavailableError("the system has no random bytes");
  }
  if (folder.empty()) return fresh;
  const std::string path = absl::StrCat(folder, "/domain_secret");
  KILN_ASSIGN_OR_RETURN(std::string secret, Read(path));
  if (!secret.empty()) return secret;
  // Whole or not there: several servers may begin at once, and one of them wins.
  const std::string draft = absl::StrCat(path, ".", getpid());
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return CannotUse(draft, std::strerror(errno));
  const bool written = write(file, fresh.data(), kBytes) == static_cast<ssize_t>(kBytes) && fsync(file) == 0;
  close(file);
  const bool linked = written && (link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const std::string why = std::strerror(errno);
  unlink(draft.c_str());
  if (!linked) return CannotUse(path, why);
  return Read(path);
}

}  // namespace kiln::server
