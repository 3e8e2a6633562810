// Which user of this machine is at the other end of a Unix socket.
//
// The system knows it of a connection, but gRPC's calls do not tell by which connection they
// came. So connections of one user come by an acceptor of gRPC's that is that user's alone,
// and its processor notes the user in what gRPC keeps of each connection. Nothing of this is
// on the wire: clients are as they were, without encryption.
#ifndef KILN_SERVER_PORT_UNIX_USERS_H_
#define KILN_SERVER_PORT_UNIX_USERS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kiln::server {

// Not for several threads, but for UserOf.
class UnixUsers {
 public:
  // So many users at most; a user keeps its acceptor as long as the server lives, since its
  // connections may.
  static constexpr size_t kUsers = 64;

  // Before `builder` builds.
  explicit UnixUsers(grpc::ServerBuilder& builder);
  ~UnixUsers();

  // Takes a connection of `user` over, which came by `listener`; false, and it is not taken, if
  // there are too many users already. While the server serves.
  bool HandOver(int listener, int connection, uint32_t user);

  // Whose connection a call came by, if by one that was handed over here.
  static std::optional<uint32_t> UserOf(const grpc::AuthContext& connection);

 private:
  struct Slot;

  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_PORT_UNIX_USERS_H_
