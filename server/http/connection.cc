#include "server/http/connection.h"

#include <sys/socket.h>
#include <unistd.h>

// Boost.Asio 1.74 uses std::exchange without its header.
#include <utility>
//
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/port/sockets.h"

namespace kiln::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Error = beast::error_code;

// What is read of a large body at a time; a connection that waits keeps less.
constexpr size_t kReadBytes = 64 << 10;
// How long a client that is told off may go on sending before the connection ends: what ends with unread bytes takes
// the answer with it.
constexpr std::chrono::seconds kFarewell{2};

constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

std::string Text(beast::string_view text) { return {text.data(), text.size()}; }

// A head that is none, or too long.
HttpAnswer BadHead(const beast::error_code& error, uint64_t max_body_bytes) {
  if (error == http::error::body_limit)
    return ErrorAnswer(413, absl::StrCat("a request's body has ", max_body_bytes, " bytes at most"));
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return ErrorAnswer(431, absl::StrCat("a request's head has ", kMaxHeadBytes, " bytes at most"));
  return ErrorAnswer(400, absl::StrCat("this is no HTTP/1.1 request: ", error.message()));
}

HttpAnswer Full() {
  HttpAnswer answer = ErrorAnswer(503, "bodies and answers of all clients together have no more memory now");
  answer.retry_after_seconds = 1;
  return answer;
}

// Whether the other side has ended the connection, or is gone.
bool HasHungUp(int socket) {
  char byte;
  const ssize_t got = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

asio::ip::tcp ProtocolOf(int connection) {
  int domain = AF_INET;
  socklen_t size = sizeof(domain);
  getsockopt(connection, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

// A body as it comes. Beast's own makes room for all that a client announces.
struct Body {
  using value_type = std::string;
  static uint64_t size(const std::string& body) { return body.size(); }

  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(http::header<is_request, Fields>&, std::string& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, Error& error) { error = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, Error& error) {
      error = {};
      const size_t before = body_.size();
      for (const auto& buffer : beast::buffers_range_ref(buffers))
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
      return body_.size() - before;
    }
    void finish(Error& error) { error = {}; }

   private:
    std::string& body_;
  };
};

class Connection final : public HttpConnection, public std::enable_shared_from_this<Connection> {
 public:
  // `socket` is of a strand. `all` outlives it.
  Connection(asio::ip::tcp::socket socket, std::string peer, HttpConnections* all);
  ~Connection() override;

  // Once. It lives as long as something of it is under way.
  void Begin();
  void End(bool at_once) override;

 private:
  using Parser = http::request_parser<Body>;
  using Response = http::response<http::string_body>;

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

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
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

Connection::Connection(asio::ip::tcp::socket socket, std::string peer, HttpConnections* all)
    : stream_(std::move(socket)),
      buffer_(kReadBytes),
      peer_(std::move(peer)),
      all_(all),
      body_share_(&all->budget),
      answer_share_(&all->budget) {}

Connection::~Connection() {
  absl::MutexLock lock(&all_->mutex);
  all_->open.erase(this);
}

void Connection::Begin() {
  {
    absl::MutexLock lock(&all_->mutex);
    all_->open.emplace(this, weak_from_this());
  }
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->ReadHead(); });
}

void Connection::End(bool at_once) {
  asio::post(stream_.get_executor(), [self = shared_from_this(), at_once] {
    if (at_once || self->state_ == State::kIdle) self->Drop();
  });
}

void Connection::ReadHead() {
  if (all_->closing.load()) return Drop();
  state_ = State::kIdle;
  request_ = {};
  response_.reset();
  parser_.emplace();
  parser_->header_limit(kMaxHeadBytes);
  parser_->body_limit(all_->max_body_bytes);
  stream_.expires_after(std::chrono::seconds(kHeadSeconds));
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const Error& error, size_t) { self->OnHead(error); });
}

void Connection::OnHead(const Error& error) {
  state_ = State::kReading;
  static const auto& of_http = http::make_error_code(http::error::end_of_stream).category();
  if (error) {
    if (error.category() != of_http || error == http::error::end_of_stream || error == http::error::partial_message)
      return Drop();
    return Send(BadHead(error, all_->max_body_bytes), /*keep=*/false);
  }
  const auto& head = parser_->get();
  request_.method = Text(head.method_string());
  request_.target = Text(head.target());
  request_.peer = peer_;
  request_.host = Text(head[http::field::host]);
  request_.origin = Text(head[http::field::origin]);
  request_.authorization = Text(head[http::field::authorization]);
  request_.traceparent = Text(head["traceparent"]);
  request_.json_bytes = Text(head["Inference-Header-Content-Length"]);
  request_.has_length = parser_->content_length().has_value();
  std::optional<HttpAnswer> refusal = RefusalByHead();
  if (!refusal.has_value()) refusal = all_->service->Refuse(request_);
  // What follows a body that is not read would be taken for a request.
  if (refusal.has_value()) return Send(*std::move(refusal), /*keep=*/parser_->is_done() && parser_->keep_alive());
  if (parser_->is_done()) return HaveAnswered();
  const uint64_t length = parser_->content_length().value_or(0);
  stream_.expires_after(std::chrono::seconds(SecondsFor(length)));
  if (length > kMaxHeadBytes) buffer_.reserve(kReadBytes);
  if (absl::EqualsIgnoreCase(Text(head[http::field::expect]), "100-continue")) return Continue();
  ReadBody();
}

std::optional<HttpAnswer> Connection::RefusalByHead() const {
  const auto& head = parser_->get();
  if (head.count(http::field::transfer_encoding) != 0)
    return ErrorAnswer(411, "Transfer-Encoding is not taken; send the body whole, with Content-Length");
  if (head.count(http::field::content_encoding) != 0)
    return ErrorAnswer(415, "Content-Encoding is not taken; send the body as it is");
  if (head.count(http::field::authorization) > 1) return ErrorAnswer(400, "Authorization comes twice");
  return std::nullopt;
}

void Connection::Continue() {
  asio::async_write(stream_, asio::buffer(kContinue, sizeof(kContinue) - 1),
                    [self = shared_from_this()](const Error& error, size_t) {
                      if (error) return self->Drop();
                      self->ReadBody();
                    });
}

void Connection::ReadBody() {
  http::async_read_some(stream_, buffer_, *parser_,
                        [self = shared_from_this()](const Error& error, size_t) { self->OnBody(error); });
}

void Connection::OnBody(const Error& error) {
  if (error) return Drop();
  // As it comes: who only announces much takes nothing.
  if (!body_share_.GrowTo(parser_->get().body().size())) return Send(Full(), /*keep=*/false);
  if (!parser_->is_done()) return ReadBody();
  HaveAnswered();
}

void Connection::HaveAnswered() {
  state_ = State::kAnswering;
  stream_.expires_never();
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
  request_.body = std::move(parser_->get().body());
  {
    absl::MutexLock lock(&all_->mutex);
    if (all_->closed) return Drop();
    ++all_->calls;
  }
  cancel_ =
      all_->service->Answer(std::move(request_), [self = shared_from_this(), all = all_](HttpAnswer answer) mutable {
        const auto executor = self->stream_.get_executor();
        asio::post(executor, [self = std::move(self), answer = std::move(answer)]() mutable {
          // Nobody is there who would read it.
          if (self->state_ == State::kEnding) return;
          self->Send(std::move(answer), self->parser_->keep_alive());
        });
        absl::MutexLock lock(&all->mutex);
        --all->calls;
      });
  WatchForHangUp();
}

void Connection::WatchForHangUp() {
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](const Error& error) {
    // The next request may be there as well, of a client that does not wait: then who hangs up is not noticed.
    if (error || self->state_ != State::kAnswering || !HasHungUp(self->stream_.socket().native_handle())) return;
    self->Drop();
  });
}

void Connection::Send(HttpAnswer answer, bool keep) {
  state_ = State::kSending;
  cancel_ = nullptr;
  Error ignored;
  stream_.socket().cancel(ignored);  // the watch for who hangs up
  std::string().swap(parser_->get().body());
  body_share_.Release();
  if (!answer_share_.GrowTo(answer.body.size())) answer = Full();
  keep = keep && !all_->closing.load();
  response_.emplace(static_cast<http::status>(answer.status), parser_->get().version() == 10 ? 10u : 11u);
  response_->set(http::field::content_type, answer.type);
  response_->set(http::field::cache_control, "no-store");
  response_->set("X-Content-Type-Options", "nosniff");
  if (answer.json_bytes.has_value())
    response_->set("Inference-Header-Content-Length", std::to_string(*answer.json_bytes));
  if (answer.retry_after_seconds.has_value())
    response_->set(http::field::retry_after, std::to_string(*answer.retry_after_seconds));
  if (!answer.allow.empty()) response_->set(http::field::allow, answer.allow);
  if (answer.status == 401) response_->set(http::field::www_authenticate, "Bearer");
  if (parser_->get().method() != http::verb::head) response_->body() = std::move(answer.body);
  response_->keep_alive(keep);
  response_->prepare_payload();
  stream_.expires_after(std::chrono::seconds(SecondsFor(response_->body().size())));
  http::async_write(stream_, *response_,
                    [self = shared_from_this()](const Error& error, size_t) { self->OnSent(error); });
}

void Connection::OnSent(const Error& error) {
  const bool keep = response_->keep_alive();
  response_.reset();
  answer_share_.Release();
  if (error) return Drop();
  if (keep) return ReadHead();
  Error ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  state_ = State::kIdle;
  stream_.expires_after(kFarewell);
  ReadNoMore();
}

// Until the client has noticed, and no longer than kFarewell.
void Connection::ReadNoMore() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kReadBytes / 16), [self = shared_from_this()](const Error& error, size_t) {
    if (error) return self->Drop();
    self->ReadNoMore();
  });
}

void Connection::Drop() {
  state_ = State::kEnding;
  if (cancel_ != nullptr) std::exchange(cancel_, nullptr)();
  stream_.close();
}

}  // namespace

void HttpConnection::Start(asio::io_context& io, int descriptor, HttpConnections* all) {
  Error error;
  asio::ip::tcp::socket socket(asio::make_strand(io));
  socket.assign(ProtocolOf(descriptor), descriptor, error);
  if (error) {
    close(descriptor);
    return;
  }
  std::make_shared<Connection>(std::move(socket), PeerAddress(descriptor), all)->Begin();
}

}  // namespace kiln::server
