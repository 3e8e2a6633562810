#include "tests/support/delaying_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace kiln::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// One direction of one connection: a thread that takes, and one that hands on.
class Way {
 public:
  Way(int from, int to, absl::Duration delay)
      : from_(from), to_(to), delay_(delay), taker_([this] { Take(); }), giver_([this] { Give(); }) {}
  ~Way() {
    taker_.join();
    giver_.join();
  }

 private:
  struct Parcel {
    absl::Time due;
    std::string bytes;  // none: the end
  };

  void Take() {
    for (;;) {
      std::string bytes(64 << 10, '\0');
      const ssize_t count = recv(from_, bytes.data(), bytes.size(), 0);
      bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
      absl::MutexLock lock(&mutex_);
      parcels_.push_back({absl::Now() + delay_, std::move(bytes)});
      if (count <= 0) return;
    }
  }

  void Give() {
    for (;;) {
      Parcel parcel;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(+[](Way* way) { return !way->parcels_.empty(); }, this));
        parcel = std::move(parcels_.front());
        parcels_.pop_front();
      }
      absl::SleepFor(parcel.due - absl::Now());
      if (parcel.bytes.empty()) {
        shutdown(to_, SHUT_WR);
        return;
      }
      for (size_t sent = 0; sent < parcel.bytes.size();) {
        const ssize_t count = send(to_, parcel.bytes.data() + sent, parcel.bytes.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;  // the taker hears of the end, too
        sent += static_cast<size_t>(count);
      }
    }
  }

  const int from_, to_;
  const absl::Duration delay_;
  absl::Mutex mutex_;
  std::deque<Parcel> parcels_;
  std::thread taker_, giver_;
};

}  // namespace

struct DelayingProxy::State {
  int listener = -1;
  int port = 0;
  absl::Mutex mutex;
  std::vector<int> sockets ABSL_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Way>> ways;
  std::thread acceptor;
};

DelayingProxy::DelayingProxy(int port, absl::Duration delay) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in own = Loopback(0);
  socklen_t length = sizeof(own);
  KILN_CHECK(bind(state.listener, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0);
  KILN_CHECK(listen(state.listener, 16) == 0);
  KILN_CHECK(getsockname(state.listener, reinterpret_cast<sockaddr*>(&own), &length) == 0);
  state.port = ntohs(own.sin_port);
  state.acceptor = std::thread([&state, port, delay] {
    for (;;) {
      const int client = accept(state.listener, nullptr, nullptr);
      if (client < 0) return;
      const int server = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in address = Loopback(port);
      KILN_CHECK(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
      absl::MutexLock lock(&state.mutex);
      for (const int end : {client, server}) {
        const int on = 1;
        setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        state.sockets.push_back(end);
      }
      state.ways.push_back(std::make_unique<Way>(client, server, delay));
      state.ways.push_back(std::make_unique<Way>(server, client, delay));
    }
  });
}

DelayingProxy::~DelayingProxy() {
  shutdown(state_->listener, SHUT_RDWR);
  state_->acceptor.join();
  close(state_->listener);
  Cut();
  state_->ways.clear();
  absl::MutexLock lock(&state_->mutex);
  for (const int end : state_->sockets) close(end);
}

void DelayingProxy::Cut() {
  absl::MutexLock lock(&state_->mutex);
  for (const int end : state_->sockets) shutdown(end, SHUT_RDWR);
}

std::string DelayingProxy::address() const { return absl::StrCat("127.0.0.1:", state_->port); }

}  // namespace kiln::testing
