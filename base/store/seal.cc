#include "base/store/seal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::store {

absl::StatusOr<SealKey> ReadSealKey(const std::string& path) {
  const auto bad = [&path](absl::string_view why) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the key in ", path, ": ", why));
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return bad(absl::StrCat(std::strerror(errno), "; `head -c 32 /dev/urandom > FILE` makes one"));
  struct stat info = {};
  const bool known = fstat(file, &info) == 0;
  // One more than there may be, to see whether there are.
  char bytes[sizeof(Digest) + 1];
  const ssize_t got = read(file, bytes, sizeof(bytes));
  close(file);
  if (!known || !S_ISREG(info.st_mode)) return bad("it is no file");
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return bad(absl::StrCat("it belongs to user ", info.st_uid, ", who can change it"));
  }
  if ((info.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    return bad("others may read it or write it; let it be its owner's alone (chmod 600)");
  }
  if (got != static_cast<ssize_t>(sizeof(Digest))) return bad("a key has 32 bytes");
  return SealKey(Digest::FromBytes({bytes, sizeof(Digest)}));
}

}  // namespace kiln::store
