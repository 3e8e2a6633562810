#include "server/fair/fair_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kiln::server {

class FairQueue::Session : public FairLevel::Flow {
 public:
  Tenant* tenant = nullptr;
  uint64_t number = 0;
  Entry* first = nullptr;
  Entry* last = nullptr;
  int closed = 0;  // by so many
};

struct FairQueue::Tenant : FairLevel::Flow {
  uint64_t number = 0;
  FairLevel level;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Session>> sessions;
  int closed = 0;  // its sessions, added up
  int aside = 0;   // entries of it that are set aside
  size_t with_device = 0;
  bool there = false;         // has something that waits or is served
  uint64_t known_ns = 0;      // of those
  uint64_t slice_ns = 0;      // the same, but of each no more than until it would pause
  Session* paused = nullptr;  // whose first entry has paused: only that is served
  size_t most_sessions = kKept;
};

FairQueue::FairQueue(const Options& options) : options_(options) {}
FairQueue::~FairQueue() = default;

double FairQueue::CreditOf(const FairOwner& owner) const {
  return owner.interactive ? static_cast<double>(options_.credit_ns) / std::max(owner.weight, 1u) : 0;
}

FairQueue::Session& FairQueue::SessionOf(const FairOwner& owner) {
  std::unique_ptr<Tenant>& tenant = tenants_[owner.tenant];
  if (tenant == nullptr) {
    tenant = std::make_unique<Tenant>();
    tenant->number = owner.tenant;
  }
  const double weight = std::max(owner.weight, 1u);
  const double credit = CreditOf(owner);
  if (tenant->weight != weight || tenant->credit != credit) {
    level_.Take(*tenant);  // Update has it asked anew
    tenant->weight = weight;
    tenant->credit = credit;
  }
  std::unique_ptr<Session>& session = tenant->sessions[owner.session];
  if (session == nullptr) {
    session = std::make_unique<Session>();
    session->tenant = tenant.get();
    session->number = owner.session;
  }
  return *session;
}

void FairQueue::Update(Session& session, bool anew, bool tenant_anew) {
  Tenant& tenant = *session.tenant;
  const bool asks = session.first != nullptr && session.closed == 0;
  asks ? tenant.level.Wake(session, anew) : tenant.level.Sleep(session);
  const bool asked = tenant.paused == nullptr ? tenant.level.First() != nullptr : tenant.paused->closed == 0;
  const bool may_be_served = tenant.aside == 0 && asked;
  may_be_served ? level_.Wake(tenant, tenant_anew) : level_.Sleep(tenant);
}

void FairQueue::Forget(Tenant& touched) {
  if (touched.sessions.size() > touched.most_sessions) {
    absl::erase_if(touched.sessions, [&touched](const auto& each) {
      const Session& session = *each.second;
      return session.first == nullptr && session.closed == 0 && touched.level.Forgettable(session);
    });
    touched.most_sessions = std::max(kKept, 2 * touched.sessions.size());
  }
  if (tenants_.size() <= most_tenants_) return;
  absl::erase_if(tenants_, [this](const auto& each) {
    const Tenant& tenant = *each.second;
    return tenant.waiting == 0 && tenant.closed == 0 && level_.Forgettable(tenant);
  });
  most_tenants_ = std::max(kKept, 2 * tenants_.size());
}

void FairQueue::Push(Entry& entry, const FairOwner& owner, uint64_t estimate_ns, bool joint, const Kind& kind) {
  Session& session = SessionOf(owner);
  const bool anew = session.first == nullptr, tenant_anew = session.tenant->waiting == 0;
  entry.session_ = &session;
  entry.charged_ns_ = estimate_ns;
  entry.known_ns_ = kind.guessed ? 0 : estimate_ns;
  entry.may_be_long_ = kind.may_be_long;
  entry.slice_ns_ = kind.slice_ns;
  entry.joint_ = joint;
  entry.served_ = entry.begun_ = entry.aside_ = false;
  Link(entry, session.last, nullptr);
  Update(session, anew, tenant_anew);
}

void FairQueue::Count(Tenant& tenant) {
  const bool there = tenant.waiting > 0 || tenant.with_device > 0;
  if (there == std::exchange(tenant.there, there)) return;
  if (there) {
    ++tenants_there_;
  } else {
    --tenants_there_;
  }
}

void FairQueue::Link(Entry& entry, Entry* previous, Entry* next) {
  Session& session = *entry.session_;
  entry.previous_ = previous;
  entry.next_ = next;
  (previous == nullptr ? session.first : previous->next_) = &entry;
  (next == nullptr ? session.last : next->previous_) = &entry;
  ++session.waiting;
  session.waiting_ns += entry.known_ns_;
  session.tenant->waiting_ns += entry.known_ns_;
  ++session.tenant->waiting;
  waiting_ns_ += entry.known_ns_;
  ++waiting_;
  Count(*session.tenant);
}

void FairQueue::Unlink(Entry& entry) {
  Session& session = *entry.session_;
  (entry.previous_ == nullptr ? session.first : entry.previous_->next_) = entry.next_;
  (entry.next_ == nullptr ? session.last : entry.next_->previous_) = entry.previous_;
  --session.waiting;
  session.waiting_ns -= entry.known_ns_;
  session.tenant->waiting_ns -= entry.known_ns_;
  --session.tenant->waiting;
  waiting_ns_ -= entry.known_ns_;
  --waiting_;
  Count(*session.tenant);
}

uint64_t FairQueue::CountOf(const Entry& entry) const {
  return entry.may_be_long_ ? std::max(entry.charged_ns_, options_.budget_ns + 1) : entry.charged_ns_;
}

void FairQueue::CountKnown(const Entry& entry) {
  Tenant& tenant = *entry.session_->tenant;
  const uint64_t slice_ns = std::min(entry.known_ns_, entry.slice_ns_);
  tenant.known_ns += entry.known_ns_;
  tenant.slice_ns += slice_ns;
  in_flight_known_ns_ += entry.known_ns_;
  in_flight_slice_ns_ += slice_ns;
}

void FairQueue::DiscountKnown(const Entry& entry) {
  Tenant& tenant = *entry.session_->tenant;
  const uint64_t slice_ns = std::min(entry.known_ns_, entry.slice_ns_);
  tenant.known_ns -= entry.known_ns_;
  tenant.slice_ns -= slice_ns;
  in_flight_known_ns_ -= entry.known_ns_;
  in_flight_slice_ns_ -= slice_ns;
}

void FairQueue::Close(Session& session) {
  ++session.closed;
  ++session.tenant->closed;
}

FairQueue::Session* FairQueue::First() {
  for (;;) {
    FairLevel::Flow* const first = level_.First();
    if (first == nullptr) return nullptr;
    Tenant& tenant = *static_cast<Tenant*>(first);
    Session& session = tenant.paused != nullptr ? *tenant.paused : *static_cast<Session*>(tenant.level.First());
    if (!session.first->joint_ || joint_in_flight_ < kMostJoint) return &session;
    // Those under way may wait for another device, while this one has nothing to do.
    Close(session);
    Update(session);
    held_.push_back(&session);
  }
}

FairQueue::Served FairQueue::Pop() {
  Session* const first = First();
  if (first == nullptr) return {};
  Entry& entry = *first->first;
  // What goes on beside joint ones, which may wait for other devices, will pause for them.
  const size_t beside = first->tenant->paused == nullptr ? in_flight_ : in_flight_ - joint_in_flight_;
  if (!entry.joint_ && beside != 0 && in_flight_ns_ + CountOf(entry) > options_.budget_ns) return {};
  Close(*first);
  Serve(entry);
  return {&entry, first};
}

void FairQueue::Serve(Entry& entry) {
  Session& session = *entry.session_;
  Tenant& tenant = *session.tenant;
  const auto cost = static_cast<double>(entry.charged_ns_);
  ++tenant.with_device;
  Unlink(entry);
  entry.served_ = true;
  if (tenant.paused == &session) tenant.paused = nullptr;
  level_.Serve(tenant, cost);
  tenant.level.Serve(session, cost);
  if (!entry.joint_) {
    entry.counted_ns_ = CountOf(entry);
    in_flight_ns_ += entry.counted_ns_;
    CountKnown(entry);
    ++in_flight_;
  }
  Update(session);
}

bool FairQueue::Pause(Entry& entry, uint64_t used_ns) {
  KILN_CHECK(entry.served_ && !entry.joint_ && !entry.aside_);
  Session& session = *entry.session_;
  Tenant& tenant = *session.tenant;
  const bool alone = tenant.with_device == 1;
  // One that takes longer than was thought is thought to go on for a while.
  const uint64_t charged_ns = entry.charged_ns_;
  const uint64_t left_ns = std::max(charged_ns - std::min(charged_ns, used_ns), options_.budget_ns);
  Return(entry);
  entry.charged_ns_ = left_ns;
  entry.known_ns_ = entry.known_ns_ == 0 ? 0 : left_ns;
  entry.served_ = false;
  Link(entry, nullptr, session.first);
  tenant.paused = &session;
  Update(session);
  const double more = static_cast<double>(used_ns) - static_cast<double>(charged_ns);
  tenant.level.Pause(session, more);
  level_.Pause(tenant, more);
  // Others may be with the device behind it. Its session may be closed, as whoever hands it on has not come to say so:
  // then it goes on once that has been said.
  const Session* const next = First();
  if (alone && (in_flight_ != joint_in_flight_ || (next != nullptr && next != &session))) return true;
  Serve(entry);
  return false;
}

FairQueue::Session* FairQueue::Rush(Entry& entry) {
  Session& session = *entry.session_;
  KILN_CHECK(!entry.served_ && session.tenant->paused == &session && session.first == &entry);
  Close(session);
  Serve(entry);
  return &session;
}

void FairQueue::Begin(Entry& entry) {
  // It may wait for other devices while it runs, and this one is not to be idle meanwhile.
  entry.counted_ns_ = std::min(entry.charged_ns_, options_.budget_ns / 2);
  entry.known_ns_ = std::min(entry.known_ns_, entry.counted_ns_);
  entry.begun_ = true;
  in_flight_ns_ += entry.counted_ns_;
  CountKnown(entry);
  ++in_flight_;
  ++joint_in_flight_;
}

void FairQueue::Reopen(Session& session) {
  --session.closed;
  --session.tenant->closed;
  Update(session);
}

void FairQueue::Open(Session* session) {
  Reopen(*session);
  Forget(*session->tenant);
}

void FairQueue::Return(Entry& entry) {
  in_flight_ns_ -= entry.counted_ns_;
  DiscountKnown(entry);
  --in_flight_;
  --entry.session_->tenant->with_device;
  Count(*entry.session_->tenant);
  if (entry.joint_) {
    --joint_in_flight_;
    for (Session* held : std::exchange(held_, {})) Reopen(*held);
  }
}

void FairQueue::Settle(Entry& entry, uint64_t cost_ns) {
  Return(entry);
  Pay(*entry.session_, entry.charged_ns_, cost_ns);
  entry.charged_ns_ = cost_ns;
}

void FairQueue::Pay(Session& session, uint64_t charged_ns, uint64_t cost_ns) {
  const double more = static_cast<double>(cost_ns) - static_cast<double>(charged_ns);
  session.tenant->level.End(session, more);
  level_.End(*session.tenant, more);
}

void FairQueue::SetAside(Entry& entry) {
  KILN_CHECK(entry.served_ && entry.joint_ == entry.begun_ && !entry.aside_);
  // What it took by the clock, it may have waited for another that is aside: the rest of what it measures is charged as
  // it ends, and until then its tenant has nothing here anyway.
  Settle(entry, entry.charged_ns_);
  entry.aside_ = true;
  Session& session = *entry.session_;
  Close(session);  // so that neither it nor its tenant is forgotten
  ++session.tenant->aside;
  Update(session);
}

void FairQueue::End(Entry& entry, uint64_t measured_ns) {
  KILN_CHECK(entry.served_ && entry.joint_ == entry.begun_);
  Session& session = *entry.session_;
  Tenant& tenant = *session.tenant;
  if (entry.aside_) {
    const uint64_t more = measured_ns - std::min(measured_ns, entry.charged_ns_);
    tenant.level.Charge(session, static_cast<double>(more));
    level_.Charge(tenant, static_cast<double>(more));
    --tenant.aside;
    --session.closed;
    --tenant.closed;
    // While it was not served it was owed nothing.
    Update(session, /*anew=*/false, /*tenant_anew=*/true);
  } else {
    Settle(entry, measured_ns);
    Update(session);
  }
  Forget(tenant);
}

FairQueue::Session* FairQueue::Remove(Entry& entry) {
  Session& session = *entry.session_;
  if (entry.served_ && !entry.joint_) {
    Settle(entry, 0);
  } else if (entry.served_) {
    --session.tenant->with_device;
    Count(*session.tenant);
    const double less = -static_cast<double>(entry.charged_ns_);
    session.tenant->level.End(session, less);
    level_.End(*session.tenant, less);
  } else {
    Unlink(entry);
    Close(session);
  }
  Update(session);
  return &session;
}

void FairQueue::Charge(const FairOwner& owner, uint64_t measured_ns) {
  Session& session = SessionOf(owner);
  Tenant& tenant = *session.tenant;
  const auto cost = static_cast<double>(measured_ns);
  tenant.level.Charge(session, cost);
  level_.Charge(tenant, cost);
  Update(session);
  Forget(*session.tenant);
}

uint64_t FairQueue::PredictedWait(const FairOwner& owner, uint64_t worked_ns) const {
  const auto found = tenants_.find(owner.tenant);
  const Tenant* const tenant = found == tenants_.end() ? nullptr : found->second.get();
  double own_ns = 0;
  uint64_t in_flight_ns = in_flight_slice_ns_;
  if (tenant != nullptr) {
    in_flight_ns += tenant->known_ns - tenant->slice_ns;  // it does not pause for its own
    const auto session = tenant->sessions.find(owner.session);
    const Session* const its = session == tenant->sessions.end() ? nullptr : session->second.get();
    own_ns = its == nullptr ? 0 : static_cast<double>(its->waiting_ns);
    own_ns += tenant->level.Ahead(its, /*weight=*/1, /*credit=*/0, own_ns);
  }
  const double weight = std::max(owner.weight, 1u);
  const double before_ns = own_ns + level_.Ahead(tenant, weight, CreditOf(owner), own_ns);
  return in_flight_ns - std::min(in_flight_ns, worked_ns) +
         static_cast<uint64_t>(std::min(before_ns, static_cast<double>(waiting_ns_)));
}

size_t FairQueue::waiting(uint64_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second->waiting;
}

size_t FairQueue::flows() const {
  size_t flows = tenants_.size();
  for (const auto& [number, tenant] : tenants_) flows += tenant->sessions.size();
  return flows;
}

}  // namespace kiln::server
