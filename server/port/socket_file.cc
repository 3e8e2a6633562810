#include "server/port/socket_file.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

constexpr mode_t kOwners = S_IRUSR | S_IWUSR;
constexpr mode_t kGroups = kOwners | S_IRGRP | S_IWGRP;
// Of a group's row in the system's table: all its members by name.
constexpr size_t kMaxRowBytes = size_t{1} << 24;

absl::Status Cannot(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<mode_t> ParseSocketMode(absl::string_view text) {
  mode_t mode = 0;
  const bool octal = (text.size() == 3 || (text.size() == 4 && text[0] == '0')) &&
                     text.find_first_not_of("01234567") == absl::string_view::npos;
  for (const char digit : text) mode = octal ? mode * 8 + static_cast<mode_t>(digit - '0') : 0;
  if (octal && (mode & kOwners) == kOwners) return mode;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is no mode of a socket: 0600 for its own user, 0660 for a group as well, or 0666 for all"));
}

absl::StatusOr<gid_t> FindGroup(const std::string& group) {
  std::vector<char> row(size_t{1} << 12);
  struct group entry = {};
  struct group* found = nullptr;
  while (getgrnam_r(group.c_str(), &entry, row.data(), row.size(), &found) == ERANGE && row.size() < kMaxRowBytes)
    row.resize(row.size() * 4);
  if (found != nullptr) return found->gr_gid;
  gid_t number = 0;
  if (absl::SimpleAtoi(group, &number) && number != static_cast<gid_t>(-1)) return number;
  return absl::NotFoundError(absl::StrCat("this machine has no group \"", group, "\""));
}

bool MayGiveToGroup(gid_t group) {
  if (geteuid() == 0 || getegid() == group) return true;
  std::vector<gid_t> own(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  const int count = getgroups(static_cast<int>(own.size()), own.data());
  return count > 0 && std::find(own.begin(), own.begin() + count, group) != own.begin() + count;
}

absl::StatusOr<SocketAccess> ParseSocketAccess(absl::string_view mode, const std::string& group) {
  SocketAccess access;
  if (!mode.empty()) {
    auto parsed = ParseSocketMode(mode);
    if (!parsed.ok()) return std::move(parsed).status();
    access.mode = *parsed;
  }
  if (group.empty()) return access;
  auto found = FindGroup(group);
  if (!found.ok()) return std::move(found).status();
  access.group = *found;
  if (!access.mode) access.mode = kGroups;
  return access;
}

absl::Status SetAccess(const std::string& path, const SocketAccess& access) {
  if (!access.mode && !access.group) return absl::OkStatus();
  // What the path leads to may change at any time; what is opened stays the same.
  const int file = open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return Cannot("open the socket's file");
  const absl::Cleanup closed = [file] { close(file); };
  struct stat found = {};
  if (fstat(file, &found) != 0 || !S_ISSOCK(found.st_mode) || found.st_uid != geteuid())
    return absl::UnavailableError("another file has taken the socket's place");
  // The group first: of a group that it is not for yet, the mode would let in the wrong one.
  if (access.group && *access.group != found.st_gid &&
      fchownat(file, "", static_cast<uid_t>(-1), *access.group, AT_EMPTY_PATH) != 0) {
    return Cannot(absl::StrCat("give the socket to group ", *access.group));
  }
  // A descriptor that only names a file takes no fchmod().
  if (access.mode && chmod(absl::StrCat("/proc/self/fd/", file).c_str(), *access.mode) != 0)
    return Cannot("set the socket's mode");
  return absl::OkStatus();
}

}  // namespace kiln::server
