#include "server/fair/shares.h"

#include <algorithm>

namespace kiln::server {

void Shares::Settle(Tenant& tenant) {
  if (tenant.wants == 0) return;
  tenant.slots[place()].entitled_ns += tenant.weight * (v_ - tenant.since);
  tenant.since = v_;
}

void Shares::BeginSlot(int64_t number) {
  slot_ = number;
  for (Tenant& tenant : tenants_) tenant.slots[place()] = {};
}

void Shares::Advance(int64_t now_ns) {
  const int64_t now_slot = now_ns / kSlotNs;
  if (now_slot - slot_ > static_cast<int64_t>(kSlots)) {
    // All that was is of no interest any more.
    for (Tenant& tenant : tenants_) {
      tenant.slots = {};
      tenant.since = v_;
    }
    slot_ = now_slot - static_cast<int64_t>(kSlots);
    now_ns_ = slot_ * kSlotNs;
  }
  while (now_ns_ < now_ns) {
    const int64_t until = std::min(now_ns, (slot_ + 1) * kSlotNs);
    if (wanting_tenants_ > 0) v_ += static_cast<double>(until - now_ns_) / wanting_;
    now_ns_ = until;
    if (until != (slot_ + 1) * kSlotNs) break;
    for (Tenant& tenant : tenants_) Settle(tenant);
    BeginSlot(slot_ + 1);
  }
}

void Shares::Begin(size_t number, double weight, int64_t now_ns) {
  Advance(now_ns);
  Tenant& tenant = tenants_[number];
  if (tenant.wants == 0) {
    ++wanting_tenants_;
    wanting_ += weight;
    tenant.since = v_;
  } else if (weight != tenant.weight) {
    Settle(tenant);
    wanting_ += weight - tenant.weight;
  }
  tenant.weight = weight;
  ++tenant.wants;
}

void Shares::Use(size_t number, uint64_t busy_ns, int64_t now_ns) {
  Advance(now_ns);
  Tenant& tenant = tenants_[number];
  // It took that until now, and so perhaps in several slots.
  auto left = static_cast<int64_t>(std::min<uint64_t>(busy_ns, kSlotNs * kSlots));
  int64_t end = now_ns_;
  for (int64_t slot = slot_; left > 0 && slot > slot_ - static_cast<int64_t>(kSlots); --slot) {
    const int64_t part = std::min(left, end - slot * kSlotNs);
    tenant.slots[static_cast<size_t>(slot + static_cast<int64_t>(kSlots)) % kSlots].busy_ns +=
        static_cast<double>(part);
    left -= part;
    end = slot * kSlotNs;
  }
}

void Shares::End(size_t number, uint64_t busy_ns, int64_t now_ns) {
  Use(number, busy_ns, now_ns);
  Tenant& tenant = tenants_[number];
  Settle(tenant);
  if (--tenant.wants > 0) return;
  --wanting_tenants_;
  // The sum of none is 0, however it was rounded.
  wanting_ = wanting_tenants_ == 0 ? 0 : wanting_ - tenant.weight;
}

void Shares::Read(int64_t now_ns, absl::FunctionRef<void(size_t tenant, double ratio)> seen) {
  Advance(now_ns);
  Slot all;
  std::array<Slot, kTenants> sums;
  for (size_t number = 0; number < kTenants; ++number) {
    Settle(tenants_[number]);
    for (const Slot& slot : tenants_[number].slots) {
      sums[number].busy_ns += slot.busy_ns;
      sums[number].entitled_ns += slot.entitled_ns;
    }
    all.busy_ns += sums[number].busy_ns;
    all.entitled_ns += sums[number].entitled_ns;
  }
  if (all.busy_ns <= 0) return;
  for (size_t number = 0; number < kTenants; ++number) {
    if (sums[number].entitled_ns <= 0) continue;
    seen(number, sums[number].busy_ns / all.busy_ns / (sums[number].entitled_ns / all.entitled_ns));
  }
}

}  // namespace kiln::server
