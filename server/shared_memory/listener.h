// Where shared memory changes hands: a Unix socket of messages (SOCK_SEQPACKET).
//
// A client connects, and sends one message: the handle that MapSharedMemory gave it, 8
// bytes, little-endian, with the memfd beside it (SCM_RIGHTS). The answer is one byte 0;
// or a byte 1, followed by a serialized google.rpc.Status. The region is then mapped for
// as long as the connection is open.
//
// The file system decides which users may reach the socket: unless its owner names a path,
// it lies in a folder that no other user may enter.
#ifndef KILN_SERVER_SHARED_MEMORY_LISTENER_H_
#define KILN_SERVER_SHARED_MEMORY_LISTENER_H_

#include <poll.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/shared_memory/regions.h"

namespace kiln::server {

// One thread serves all connections.
class SharedMemoryListener {
 public:
  // Listens at `path`, in whose place there must be nothing but what an earlier server
  // left; or, if it is empty, in a new folder. UNAVAILABLE if that cannot be. Of the
  // numbers, regions.h says more.
  static absl::StatusOr<std::unique_ptr<SharedMemoryListener>> Open(const std::string& path, uint64_t max_bytes,
                                                                    absl::Duration timeout = absl::Seconds(10));
  // Closes all connections and removes the socket, and the folder if it was new.
  ~SharedMemoryListener();
  SharedMemoryListener(const SharedMemoryListener&) = delete;
  SharedMemoryListener& operator=(const SharedMemoryListener&) = delete;

  const std::string& path() const { return path_; }
  SharedRegions& regions() { return regions_; }

 private:
  struct Connection {
    int socket = -1;
    uint64_t handle = 0;  // of the region it brought; 0 while it has brought none
    absl::Time until;     // and by when it must
  };

  SharedMemoryListener(uint64_t max_bytes, absl::Duration timeout) : regions_(max_bytes, timeout) {}

  absl::Status Listen(const std::string& path);
  void Serve();
  // What to wait for: the wake, the listening socket, the connections in their order.
  std::vector<pollfd> Awaited() const;
  void Accept();
  // Whether the connection goes on.
  bool Hear(Connection& connection);
  void Close(const Connection& connection);

  SharedRegions regions_;
  std::string path_;
  std::string folder_;  // to be removed; empty if it is not ours
  int listening_socket_ = -1;
  int wake_ = -1;       // an eventfd: readable when it is time to stop
  bool bound_ = false;  // the socket's file is ours
  bool full_ = false;   // no further connection can be had now
  std::vector<Connection> connections_;
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SHARED_MEMORY_LISTENER_H_
