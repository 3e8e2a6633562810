// What each tenant had of a device lately, beside what it was entitled to.
//
// While a tenant wants the device, which is while something of it waits there or runs, it is entitled
// to its weight's part of the time among those who want it at that moment. So entitlement is known
// without knowing what would have been: with v(t) = the integral of dt / (weights of those who
// want it), who wants it from a to b is entitled to weight * (v(b) - v(a)). That is what makes an
// arrival and an end cost a few additions, however many tenants there are.
//
// Both are counted in slots of kSlotNs, and the last kSlots of these are looked at: so nothing of
// this grows, and it says how things are, not how they were.
#ifndef KILN_SERVER_FAIR_SHARES_H_
#define KILN_SERVER_FAIR_SHARES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "base/account.h"

namespace kiln::server {

// Of one device. Not for several threads. Times are any clock's; one that is set back stands still until then.
class Shares {
 public:
  static constexpr int64_t kSlotNs = 5'000'000'000;
  static constexpr size_t kSlots = 6;
  // Tenants by number (server/metrics/labels.h), one for those beyond, and one for nobody.
  static constexpr size_t kTenants = Accounts::kNumbered + 2;

  // Something of the tenant's came, whose weight, above 0, is this now.
  void Begin(size_t tenant, double weight, int64_t now_ns);
  // One of them has had so much time of the device, and goes on.
  void Use(size_t tenant, uint64_t busy_ns, int64_t now_ns);
  // One of them has gone, after so much time of the device until now: 0 for one that never ran.
  void End(size_t tenant, uint64_t busy_ns, int64_t now_ns);

  // What part of the device one is entitled to now that wants it.
  double PartOf(size_t tenant) const { return wanting_ > 0 ? tenants_[tenant].weight / wanting_ : 1; }

  // For each tenant that wanted the device in the last kSlots slots, of which the last is the one that goes on: its
  // part of the time that was used, over its part of what all were entitled to. 1 is as it should be. None while
  // nothing ran.
  void Read(int64_t now_ns, absl::FunctionRef<void(size_t tenant, double ratio)> seen);

 private:
  struct Slot {
    double busy_ns = 0;
    double entitled_ns = 0;
  };
  struct Tenant {
    uint32_t wants = 0;  // how much of it waits or runs
    double weight = 1;
    double since = 0;  // v, up to which its entitlement is counted
    std::array<Slot, kSlots> slots;
  };

  // Up to now; and into a new slot, if the time has come.
  void Advance(int64_t now_ns);
  void Settle(Tenant& tenant);
  void BeginSlot(int64_t number);
  size_t place() const { return static_cast<size_t>(slot_) % kSlots; }

  std::array<Tenant, kTenants> tenants_;
  double v_ = 0;
  double wanting_ = 0;  // weights, together
  size_t wanting_tenants_ = 0;
  int64_t now_ns_ = 0;
  int64_t slot_ = 0;  // number of the one that goes on
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_SHARES_H_
