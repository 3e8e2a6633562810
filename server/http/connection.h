// One connection of the HTTP port: reads a request, has it answered, writes the answer, and reads the next.
//
// The client is a stranger, so each step has an end: a head has kMaxHeadBytes and kHeadSeconds; a body and an answer
// have SecondsFor() their bytes. A request that will not be answered is told so before its body is read. While a
// request is being answered nothing of the next is read, and a client that hangs up meanwhile has its call cancelled.
//
// Tested by http_port_test.
#ifndef KILN_SERVER_HTTP_CONNECTION_H_
#define KILN_SERVER_HTTP_CONNECTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "base/byte_budget.h"
#include "server/http/message.h"

namespace boost::asio {
class io_context;
}

namespace kiln::server {

inline constexpr uint32_t kMaxHeadBytes = 16 << 10;
inline constexpr int kHeadSeconds = 60;  // also between two requests

// Half a minute, and a second more for each 256 KiB.
constexpr uint64_t SecondsFor(uint64_t bytes) { return 30 + bytes / (256 << 10); }

class HttpConnection;

// What the connections of a port have in common; outlives them.
struct HttpConnections {
  HttpService* service;
  uint64_t max_body_bytes;
  ByteBudget budget;  // of bodies and answers
  std::atomic<bool> closing{false};

  absl::Mutex mutex;
  absl::flat_hash_map<HttpConnection*, std::weak_ptr<HttpConnection>> open ABSL_GUARDED_BY(mutex);
  // Requests that the service has not answered.
  size_t calls ABSL_GUARDED_BY(mutex) = 0;
  bool closed ABSL_GUARDED_BY(mutex) = false;  // no call begins any more
};

// Safe from any thread.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;

  // Takes the descriptor over, and serves it on the threads of `io`. `all` outlives `io`.
  static void Start(boost::asio::io_context& io, int descriptor, HttpConnections* all);

  // Ends it: now, if it is idle or `at_once`; else when the request that it has is answered, and the server is closing.
  virtual void End(bool at_once) = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_CONNECTION_H_
