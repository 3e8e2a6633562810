// Sockets that listen, by the names that gRPC gives to addresses.
#ifndef KILN_SERVER_PORT_SOCKETS_H_
#define KILN_SERVER_PORT_SOCKETS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/port/socket_file.h"

namespace kiln::server {

// One for each address that the name stands for; all closed at the end.
class ListeningSockets {
 public:
  // "host:port" ("[::1]:0"; port 0 takes a free one, the same for all), "unix:path" or
  // "unix-abstract:name". A file that a server before has left at the path is replaced, and
  // the new one has that access before anybody can connect. UNAVAILABLE with what the system says.
  static absl::StatusOr<ListeningSockets> Open(absl::string_view listen, const SocketAccess& access = {});
  ~ListeningSockets();
  ListeningSockets(ListeningSockets&& other) noexcept;
  ListeningSockets& operator=(ListeningSockets&&) = delete;

  const std::vector<int>& descriptors() const { return descriptors_; }
  // 0 for a Unix socket.
  int port() const { return port_; }

 private:
  ListeningSockets() = default;

  std::vector<int> descriptors_;
  int port_ = 0;
  std::string path_;  // of a file to remove
};

// Whose a connection is: "10.0.0.7", "::1"; "unix" for all of this machine's own sockets.
std::string PeerAddress(int descriptor);

// The other end's own name, as it is told from every other that is connected at the time.
std::string PeerName(int descriptor);

// A socket by which this process can connect to one of its own that listens, and its name, by which PeerName() will
// know it there. -1 if there can be none.
int MakeProbe(int listener, std::string& name);
// Begins to connect it: 0, or what connect() says.
int ConnectProbe(int probe, int listener);

// The user whose program has connected to a Unix socket; none for any other.
std::optional<uint32_t> PeerUser(int descriptor);

}  // namespace kiln::server

#endif  // KILN_SERVER_PORT_SOCKETS_H_
