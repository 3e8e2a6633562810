// The port: accepts connections, and hands them over to gRPC.
//
// gRPC 1.51 can accept by itself, but once the process has no descriptor left its port never
// accepts again. So we accept, count, and keep a descriptor in reserve: a server that is full
// closes what is too much at once, and goes on.
#ifndef KILN_SERVER_PORT_PORT_H_
#define KILN_SERVER_PORT_PORT_H_

#include <spdlog/fwd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/port/connections.h"
#include "server/port/sockets.h"

namespace kiln::server {

// Raises this process's limit of descriptors as far as it may, and leaves as many as the
// process itself needs: how many connections there may be then.
size_t MaxConnections();

class Port {
 public:
  // Takes the descriptor over: `listener` is the one that it came by.
  using HandOver = std::function<void(int listener, int connection)>;

  // Listens. UNAVAILABLE if the address cannot be had. `access` is that of a Unix socket's file.
  static absl::StatusOr<std::unique_ptr<Port>> Open(const std::string& listen, Connections::Limits limits,
                                                    std::shared_ptr<spdlog::logger> log,
                                                    const SocketAccess& access = {});
  // Stops.
  ~Port();

  int port() const { return sockets_->port(); }

  // Accepts from now on, on a thread of its own. Once.
  void Start(HandOver hand_over);
  // Accepts no more, and closes what listens; what was handed over goes on.
  void Stop();

  // Whether what listens accepts: a connection of this process's own, made as clients make theirs, is taken within
  // `patience`. It counts for no limit. What this process cannot ask, for want of a descriptor, is taken to live. From
  // any thread, between Start and Stop.
  bool Accepts(absl::Duration patience);

  // After Stop: nothing more is sent to anybody. What was sent before arrives: whether each client's machine has it
  // all, for which it waits no longer than `patience`.
  bool HangUp(absl::Duration patience);

 private:
  Port(ListeningSockets sockets, Connections::Limits limits, std::shared_ptr<spdlog::logger> log);

  void AcceptUntilStopped();
  bool AcceptsAt(int listener, absl::Time end);
  bool IsProbe(int connection);
  // All that wait at one of the sockets.
  void AcceptAll(int listener);
  // There is no descriptor for the one that waits: it is closed by means of the reserve.
  void RefuseOne(int listener);
  void Refused(const char* why, const std::string& address);

  std::unique_ptr<ListeningSockets> sockets_;
  const std::shared_ptr<spdlog::logger> log_;
  Connections connections_;
  HandOver hand_over_;
  int reserve_;  // open, and of no other use
  int stop_;     // an eventfd
  uint64_t refused_ = 0;
  absl::Mutex probes_mutex_;
  absl::flat_hash_set<std::string> probes_ ABSL_GUARDED_BY(probes_mutex_);  // names of their own ends
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_PORT_PORT_H_
