// Clients that are there and ask for nothing more: each a connection, a session, a stream of commands.
#ifndef KILN_TESTS_BENCH_LOAD_IDLE_CLIENTS_H_
#define KILN_TESTS_BENCH_LOAD_IDLE_CLIENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kiln::bench {

class IdleClient;

// Each function blocks until the server has done it for all, and ends the process where it has not.
class IdleClients {
 public:
  explicit IdleClients(const std::string& address);
  // Streams end by cancellation, then connections; sessions stay until their leases end.
  ~IdleClients();
  IdleClients(const IdleClients&) = delete;
  IdleClients& operator=(const IdleClients&) = delete;

  void Connect(uint64_t clients);
  void OpenSessions();
  void OpenStreams();  // under the sessions

 private:
  const std::string address_;
  std::vector<std::unique_ptr<IdleClient>> clients_;
};

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_LOAD_IDLE_CLIENTS_H_
