// One connection of the HTTP port: reads a request, has it answered, writes the answer, and reads the next.
//
// The client is a stranger, so each step has an end: a head has kHeadBytes and kHeadTime; a body and an answer have
// TimeFor() their bytes. A request that will not be answered is told so before its body is read. While a request is
// being answered nothing of the next is read, and a client that hangs up meanwhile has its call cancelled.
//
// Tested by http_port_test.
#ifndef KILN_SERVER_HTTP_CONNECTION_H_
#define KILN_SERVER_HTTP_CONNECTION_H_

// Boost.Asio uses std::exchange without its header.
#include <utility>
//
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/http/byte_budget.h"
#include "server/http/message.h"

namespace kiln::server {

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
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  static constexpr uint32_t kHeadBytes = 16 << 10;
  static constexpr std::chrono::seconds kHeadTime{60};  // also between two requests

  // Half a minute, and a second more for each 256 KiB.
  static std::chrono::seconds TimeFor(uint64_t bytes) {
    return std::chrono::seconds(30 + bytes / (256 << 10));
  }

  // `socket` is of a strand. `all` outlives it.
  HttpConnection(boost::asio::ip::tcp::socket socket, std::string peer, HttpConnections* all);
  ~HttpConnection();

  // From any thread, once. It lives as long as something of it is under way.
  void Start();
  // From any thread: ends it, now if it is idle or `at_once`, else when the request that it has is answered.
  void End(bool at_once);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;
  using Error = boost::beast::error_code;

  // In this order, on the strand.
  void ReadHead();
  void OnHead(const Error& error);
  std::optional<HttpAnswer> RefusalByHead() const;
  void Continue();
  void ReadBody();
  void OnBody(const Error& error);
  void HaveAnswered();
  void WatchForHangUp();
  void Send(HttpAnswer answer, bool keep);
  void OnSent(const Error& error);
  void ReadNoMore();
  void Drop();

  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  const std::string peer_;
  HttpConnections* const all_;
  enum class State : unsigned char { kIdle, kReading, kAnswering, kSending, kEnding } state_ = State::kIdle;
  ByteBudget::Share body_share_, answer_share_;

  // Of the request at hand.
  std::optional<Parser> parser_;
  HttpRequest request_;
  std::function<void()> cancel_;
  std::optional<Response> response_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_CONNECTION_H_
