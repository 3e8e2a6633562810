#include "runtime/cluster/loopback.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"

namespace kiln::runtime::cluster {

class LoopbackWire final : public Wire {
 public:
  LoopbackWire(Loopback* loopback, uint32_t rank) : loopback_(loopback), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return loopback_->size_; }

  absl::StatusOr<Request> SendMessage(uint32_t to, absl::string_view bytes) override {
    absl::MutexLock lock(&loopback_->mutex_);
    if (Joined(to)) loopback_->messages_[to].push_back({rank_, std::string(bytes)});
    return Add({});
  }

  absl::StatusOr<Request> Send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) override {
    absl::MutexLock lock(&loopback_->mutex_);
    if (Joined(to)) loopback_->parcels_[to][{rank_, tag}].emplace_back(static_cast<const char*>(from), bytes);
    return Add({});
  }

  absl::StatusOr<Request> Receive(uint32_t from, uint32_t tag, void* to, uint64_t bytes) override {
    return Add({true, from, tag, to, bytes});
  }

  absl::StatusOr<bool> Test(Request request) override {
    const Receipt& receipt = receipts_.at(request);
    if (receipt.awaited) {
      // What was asked for first gets what comes first.
      for (const auto& [number, other] : receipts_) {
        if (number == request) break;
        if (other.awaited && other.from == receipt.from && other.tag == receipt.tag) return false;
      }
      absl::MutexLock lock(&loopback_->mutex_);
      auto& waiting = loopback_->parcels_[rank_][{receipt.from, receipt.tag}];
      if (waiting.empty()) return false;
      KILN_CHECK(waiting.front().size() == receipt.bytes);
      if (receipt.bytes != 0) std::memcpy(receipt.to, waiting.front().data(), receipt.bytes);
      waiting.pop_front();
    }
    receipts_.erase(request);
    return true;
  }

  void Cancel(Request request) override { receipts_.at(request).awaited = false; }

  void Abandon(Request request) override { receipts_.erase(request); }

  absl::StatusOr<bool> TakeMessage(Message& message) override {
    absl::MutexLock lock(&loopback_->mutex_);
    auto& waiting = loopback_->messages_[rank_];
    if (waiting.empty()) return false;
    message = std::move(waiting.front());
    waiting.pop_front();
    return true;
  }

  void Close(bool) override {}

 private:
  struct Receipt {
    bool awaited = false;
    uint32_t from = 0;
    uint32_t tag = 0;
    void* to = nullptr;
    uint64_t bytes = 0;
  };

  bool Joined(uint32_t to) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(loopback_->mutex_) {
    return !loopback_->dead_[rank_] && !loopback_->dead_[to];
  }

  Request Add(const Receipt& receipt) {
    receipts_[++last_] = receipt;
    return last_;
  }

  Loopback* const loopback_;
  const uint32_t rank_;
  std::map<Request, Receipt> receipts_;
  Request last_ = 0;
};

std::unique_ptr<Wire> Loopback::MakeWire(uint32_t rank) { return std::make_unique<LoopbackWire>(this, rank); }

void Loopback::Silence(uint32_t rank) {
  absl::MutexLock lock(&mutex_);
  dead_[rank] = true;
  messages_[rank].clear();
  parcels_[rank].clear();
}

}  // namespace kiln::runtime::cluster
