// What has ended lately, always kept, and shown to who asks: calls with their parts, runs of
// devices, and for a while after somebody asked for them, single kernels.
//
// A call is one record, not one a part, so that keeping it takes some thirty nanoseconds.
#ifndef KILN_SERVER_TRACE_TRACES_H_
#define KILN_SERVER_TRACE_TRACES_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "base/account.h"
#include "runtime/observer.h"
#include "server/trace/parts.h"
#include "server/trace/ring.h"
#include "server/trace/trace_context.h"

namespace kiln::server {

// Whose something is, in a record: Account::number() + 1, or 0 for nobody's.
inline uint32_t OwnerNumber(const Account* account) {
  return account == nullptr ? 0 : static_cast<uint32_t>(account->number() + 1);
}

struct CallRecord {
  std::array<uint8_t, 16> trace_id = {};
  std::array<uint8_t, 8> span_id = {};
  std::array<uint8_t, 8> parent = {};  // all zero: none
  Interval time;
  uint32_t owner = 0;
  uint16_t method = 0;  // a row of server/services/rpcs.h
  uint16_t status = 0;  // gRPC's
  CallParts parts;
};

struct RunOfDevice {
  Interval time;
  uint32_t owner = 0;
  uint32_t launches = 0;
  ShortText<16> device;
  ShortText<40> kernel;  // empty: a whole run
};

// Safe from any thread.
class Traces final : public runtime::RuntimeObserver {
 public:
  // In at most `bytes`, 0 for none. `next` is told what this is told; it may be null, and outlives this.
  explicit Traces(uint64_t bytes, runtime::RuntimeObserver* next = nullptr);

  // Whether anything is kept at all.
  bool on() const { return calls_.keeps(); }

  // A call that has ended, as it is kept: what `context` lacks is made up, and `record` need not have it.
  CallRecord Keep(CallRecord record, const std::optional<TraceContext>& context);

  // Keeps kernels, too, until then.
  void KeepLaunches(absl::Time until) { launches_until_ns_.store(absl::ToUnixNanos(until), std::memory_order_relaxed); }

  // Whose records, and since when they ended.
  struct Wanted {
    std::optional<uint32_t> owner;  // none: all
    int64_t since_ns = 0;
  };
  // Oldest end first. They are copied while others write.
  std::vector<CallRecord> Calls(const Wanted& wanted) const;
  std::vector<RunOfDevice> Runs(const Wanted& wanted) const;

  void OnRun(const runtime::RunRecord& record) override;
  bool WantsLaunches() const override;
  void OnLaunch(const runtime::LaunchRecord& record) override;

 private:
  Ring<CallRecord> calls_;
  Ring<RunOfDevice> runs_, launches_;
  runtime::RuntimeObserver* const next_;
  std::atomic<int64_t> launches_until_ns_{0};
  const uint64_t seed_;
  std::atomic<uint64_t> made_{0};  // ids
};

}  // namespace kiln::server

#endif  // KILN_SERVER_TRACE_TRACES_H_
