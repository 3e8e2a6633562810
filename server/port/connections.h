// Which connections are open, so that nobody opens too many.
//
// What is handed over to gRPC is closed by it, and it tells nobody. But a descriptor has a
// number and a socket behind it, and one that is closed has neither, or another socket. So the
// count is corrected when a number comes again, and by a look at all when a limit is met.
#ifndef KILN_SERVER_PORT_CONNECTIONS_H_
#define KILN_SERVER_PORT_CONNECTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace kiln::server {

// Not for several threads.
class Connections {
 public:
  struct Limits {
    size_t all;
    size_t of_address;
  };
  explicit Connections(Limits limits) : limits_(limits) {}

  enum class Verdict { kAdmitted, kTooMany, kTooManyOfAddress };
  // Whether there is room for one more: a descriptor that was just accepted. It counts from
  // now on until it is closed, by whomever.
  Verdict Admit(int descriptor, const std::string& address);

  // Nothing more is sent on any that is open: the other side reads what was sent before, and then the end.
  // A descriptor of each, the caller's to close; of none that the process has too few for.
  std::vector<int> EndSending() const;

  // As far as is known: those that are closed may still count.
  size_t size() const { return open_.size(); }

 private:
  struct Open {
    ino_t socket;
    std::string address;
  };
  using Table = absl::flat_hash_map<int, Open>;

  void Forget(Table::iterator connection);
  void ForgetClosed();
  size_t Of(const std::string& address) const;

  const Limits limits_;
  Table open_;
  absl::flat_hash_map<std::string, size_t> of_address_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_PORT_CONNECTIONS_H_
