#include "server/http/http_port.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/http/connection.h"
#include "server/port/port.h"

namespace kiln::server {
namespace {

namespace asio = boost::asio;

// They read, write and convert small messages; nothing on them waits.
constexpr int kThreads = 2;

// A client whose machine is gone says nothing: so long, in seconds, until the system asks it, and between asking again.
constexpr int kSilence = 20, kBetweenAsking = 5, kTimesAsked = 4;

void AskWhetherItIsThere(int connection) {
  const int on = 1;
  setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPIDLE, &kSilence, sizeof(kSilence));
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPINTVL, &kBetweenAsking, sizeof(kBetweenAsking));
  setsockopt(connection, IPPROTO_TCP, TCP_KEEPCNT, &kTimesAsked, sizeof(kTimesAsked));
}

}  // namespace

struct HttpPort::Parts {
  Parts(const HttpPortOptions& options, std::unique_ptr<HttpService> what)
      : service(std::move(what)), all{service.get(), options.max_body_bytes, ByteBudget(options.max_bytes)} {}

  void Take(int connection) {
    AskWhetherItIsThere(connection);
    HttpConnection::Start(io, connection, &all);
  }

  void EndAll(bool at_once) {
    std::vector<std::shared_ptr<HttpConnection>> open;
    {
      absl::MutexLock lock(&all.mutex);
      for (const auto& [connection, owner] : all.open) {
        if (auto alive = owner.lock()) open.push_back(std::move(alive));
      }
    }
    for (const auto& connection : open) connection->End(at_once);
  }

  const std::unique_ptr<HttpService> service;
  HttpConnections all;
  asio::io_context io{kThreads};
  std::unique_ptr<Port> port;
  int number = 0;
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::vector<std::thread> threads;
};

HttpPort::HttpPort() = default;
HttpPort::~HttpPort() { Close(absl::ZeroDuration()); }

int HttpPort::port() const { return parts_->number; }
uint64_t HttpPort::bytes() const { return parts_->all.budget.used(); }

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Open(const HttpPortOptions& options,
                                                         std::unique_ptr<HttpService> service,
                                                         std::shared_ptr<spdlog::logger> log) {
  auto port = Port::Open(options.listen, options.connections, std::move(log));
  if (!port.ok()) return absl::Status(port.status().code(), absl::StrCat("--http_listen: ", port.status().message()));
  std::unique_ptr<HttpPort> self(new HttpPort());
  self->parts_ = std::make_unique<Parts>(options, std::move(service));
  Parts& parts = *self->parts_;
  parts.port = *std::move(port);
  parts.number = parts.port->port();
  for (int i = 0; i < kThreads; ++i) parts.threads.emplace_back([&parts] { parts.io.run(); });
  parts.port->Start([&parts](int, int connection) { parts.Take(connection); });
  return self;
}

void HttpPort::Close(absl::Duration patience) {
  if (parts_ == nullptr || parts_->threads.empty()) return;
  HttpConnections& all = parts_->all;
  parts_->port->Stop();
  all.closing.store(true);
  parts_->EndAll(/*at_once=*/false);
  {
    absl::MutexLock lock(&all.mutex);
    const auto none_is_open = +[](HttpConnections* each) ABSL_NO_THREAD_SAFETY_ANALYSIS { return each->open.empty(); };
    all.mutex.AwaitWithTimeout(absl::Condition(none_is_open, &all), patience);
  }
  parts_->EndAll(/*at_once=*/true);
  {
    absl::MutexLock lock(&all.mutex);
    all.closed = true;
    const auto none_is_asked = +[](HttpConnections* each) ABSL_NO_THREAD_SAFETY_ANALYSIS { return each->calls == 0; };
    all.mutex.Await(absl::Condition(none_is_asked, &all));
  }
  parts_->work.reset();
  parts_->io.stop();
  for (std::thread& thread : parts_->threads) thread.join();
  parts_->threads.clear();
}

}  // namespace kiln::server
