// The file of a Unix socket: who may connect by it.
//
// To connect one needs the right to write to the file. What bind() makes has the rights that the process's umask
// leaves, which a service manager often makes its user's alone. They are set between bind() and listen(): until then
// nobody can connect, so there is no moment at which more may than should. The umask itself is the whole process's, and
// stays.
#ifndef KILN_SERVER_PORT_SOCKET_FILE_H_
#define KILN_SERVER_PORT_SOCKET_FILE_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

struct SocketAccess {
  std::optional<mode_t> mode;  // none: what the umask leaves
  std::optional<gid_t> group;  // none: this process's own
};

// "660" or "0660", which must let this process's own user read and write. INVALID_ARGUMENT says what would be right.
absl::StatusOr<mode_t> ParseSocketMode(absl::string_view text);

// By its name or number. NOT_FOUND; a number need not be anybody's.
absl::StatusOr<gid_t> FindGroup(const std::string& group);

// Whether this process may make a file of its own that group's: it is in it, or may do so with any.
bool MayGiveToGroup(gid_t group);

// Both settings as one; each may be empty. A group without a mode has 0660.
absl::StatusOr<SocketAccess> ParseSocketAccess(absl::string_view mode, const std::string& group);

// Of a socket that this process has bound. UNAVAILABLE if the system does not let it, or if something else is at the
// path by now: nothing else is changed.
absl::Status SetAccess(const std::string& path, const SocketAccess& access);

}  // namespace kiln::server

#endif  // KILN_SERVER_PORT_SOCKET_FILE_H_
