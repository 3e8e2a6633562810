// What waits for a device, and in which order it gets there: tenants by their weights in time
// that was measured, a tenant's sessions evenly, and what is of one session in the order in which
// it came.
//
// What is served is charged what it is thought to take, and, when it has ended, the difference:
// so shares need no good estimates. So much of it is with the device at once as is thought to
// take `budget_ns`, and always one: the device has something to do, and who comes next does not
// wait for long.
//
// The bound. Of two tenants f and g that both always have something waiting, and in any span of
// time, let W be the time each got, w its weight, c its longest entry, and t the most that is
// with the device at once; c and t in time or in estimates, whichever is more. Where estimates
// are right, t is `budget_ns` or one entry:
//
//   |W_f / w_f - W_g / w_g|  <=  (t + c_f) / w_f + (t + c_g) / w_g
//
// (Goyal et al., SIGCOMM 1996, Theorem 1, has it with t = 0; what is charged late adds what is
// under way.) An interactive tenant's may be 2 * credit_ns / w more, once: it is served so much
// earlier than its tag says, but its tag goes on by all that it gets.
//
// Here are no threads, no clocks and no locks: one thread at a time, and what has passed is an
// argument. fair_queue_test.cc simulates it; turns.h has one for each device.
#ifndef KILN_SERVER_FAIR_FAIR_QUEUE_H_
#define KILN_SERVER_FAIR_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/fair/fair_level.h"

namespace kiln::server {

// Whose something is.
struct FairOwner {
  // Numbers of any kind; the same one is the same tenant, or the same session of it.
  uint64_t tenant = 0;
  uint64_t session = 0;
  uint32_t weight = 1;  // the tenant's; 0 counts as 1
  bool interactive = false;
};

class FairQueue {
 public:
  struct Options {
    uint64_t budget_ns = 500'000;
    // Of an interactive tenant, for a weight of 1.
    uint64_t credit_ns = 2'000'000;
  };

  static constexpr size_t kMostJoint = 4;
  // So many tenants, and sessions of each, are remembered whether they ask or not.
  static constexpr size_t kKept = 16;

  // What else is known of one that waits.
  struct Kind {
    // Its estimate is a guess: how long others wait is not told from it.
    bool guessed = false;
    // It may take far longer, however short its like have been: nothing else is with the device beside it.
    bool may_be_long = false;
    // Once it has had the device for so long it pauses if another tenant is next.
    uint64_t slice_ns = ~uint64_t{0};
  };

  class Session;
  // One thing that waits, or is served. Where it is from Push until End or Remove, its owner's.
  class Entry {
   public:
    Entry() = default;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class FairQueue;
    Session* session_ = nullptr;
    Entry* previous_ = nullptr;
    Entry* next_ = nullptr;
    uint64_t charged_ns_ = 0;
    uint64_t known_ns_ = 0;    // that others may expect to wait for it
    uint64_t slice_ns_ = 0;    // after which it lets another tenant's pass
    uint64_t counted_ns_ = 0;  // of the budget
    bool may_be_long_ = false;
    bool joint_ = false;
    bool begun_ = false;
    bool served_ = false;
    bool aside_ = false;
  };

  explicit FairQueue(const Options& options);
  ~FairQueue();

  // It waits from now on. One that is `joint` waits in several queues at once: when it is served
  // here the others may not have come to it, so it takes nothing of the budget before Begin. It
  // is served beside whatever is with the device, which it may be there to meet, but only
  // kMostJoint at once: until then its session waits, and others do not.
  void Push(Entry& entry, const FairOwner& owner, uint64_t estimate_ns, bool joint = false) {
    Push(entry, owner, estimate_ns, joint, Kind());
  }
  void Push(Entry& entry, const FairOwner& owner, uint64_t estimate_ns, bool joint, const Kind& kind);

  // Serves the next; null if nothing waits or the budget is used up. Its session is closed
  // until Open, so that nothing of it comes before this one has been handed on.
  struct Served {
    Entry* entry = nullptr;
    Session* session = nullptr;  // valid until Open
  };
  Served Pop();
  // The device is to have it now; only of one that is joint.
  void Begin(Entry& entry);
  void Open(Session* session);

  // One that was served, and is joint with no other queue, has had so much, and pauses if somebody else is next: then
  // it waits again, as what is left of it, and comes before all else of its tenant, of which nothing is served until
  // then. False if it goes on, as what is left of it: nobody is before its tenant, or the device has more of that.
  bool Pause(Entry& entry, uint64_t used_ns);
  // One that has paused is not wanted any more, and goes on at once, to its end. Its session is closed until Open.
  Session* Rush(Entry& entry);

  // One that was served, and begun, goes on beside the others: for them it has ended, after so long. Its tenant is
  // served nothing until it has. Not twice.
  void SetAside(Entry& entry);
  // One that was served, and begun, has ended. After it the entry is its owner's alone.
  void End(Entry& entry, uint64_t measured_ns);
  // One that was not served, or that the device has done nothing of, is not wanted any more. Its session is closed
  // until Open, so that nothing that was behind it comes before its owner knows.
  Session* Remove(Entry& entry);
  // What was not waited for has taken so much of the device.
  void Charge(const FairOwner& owner, uint64_t measured_ns);

  // How long what `owner` pushes now would wait, by what is there and the estimates that are no guesses. What comes
  // after it may still be served before it, if its owner has had less.
  // `worked_ns`: for how long what is in flight has been worked on, since the last of it ended or the first began.
  uint64_t PredictedWait(const FairOwner& owner, uint64_t worked_ns = 0) const;
  // Until all that is there now has been done, by the same.
  uint64_t LongestWait(uint64_t worked_ns) const {
    return waiting_ns_ + in_flight_known_ns_ - std::min(in_flight_known_ns_, worked_ns);
  }
  // Of one tenant.
  size_t waiting(uint64_t tenant) const;
  size_t waiting() const { return waiting_; }
  size_t in_flight() const { return in_flight_; }
  // Whether what the device works on has others behind it that a pause may let pass: another tenant's.
  bool contended() const { return tenants_there_ > 1 && (waiting_ > 0 || in_flight_ - joint_in_flight_ > 1); }
  // Tenants and sessions that are remembered: some, and twice as many as asked, ran or owed at once.
  size_t flows() const;

 private:
  struct Tenant;

  double CreditOf(const FairOwner& owner) const;
  Session& SessionOf(const FairOwner& owner);
  // Into its session's list, between those.
  void Link(Entry& entry, Entry* previous, Entry* next);
  void Unlink(Entry& entry);
  // Something of it has come or gone.
  void Count(Tenant& tenant);
  // The device has it from now on.
  void Serve(Entry& entry);
  // It is with the device no more, and has cost so much.
  void Settle(Entry& entry, uint64_t cost_ns);
  // The two parts of that.
  void Return(Entry& entry);
  void Pay(Session& session, uint64_t charged_ns, uint64_t cost_ns);
  // Others may expect to wait for so much of it while it is with the device.
  void CountKnown(const Entry& entry);
  void DiscountKnown(const Entry& entry);
  // What it takes of the budget.
  uint64_t CountOf(const Entry& entry) const;
  // Whoever has something waiting and may be served asks; the others do not.
  void Update(Session& session, bool anew = false, bool tenant_anew = false);
  void Close(Session& session);
  void Reopen(Session& session);
  // Whose first entry is the next; null if nothing may be served.
  Session* First();
  // Of whom there are twice as many as the last time, those that owe nothing and are owed nothing.
  void Forget(Tenant& touched);

  const Options options_;
  FairLevel level_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Tenant>> tenants_;
  size_t waiting_ = 0;
  uint64_t waiting_ns_ = 0;
  size_t in_flight_ = 0;
  uint64_t in_flight_ns_ = 0;        // of the budget
  uint64_t in_flight_known_ns_ = 0;  // of estimates that are no guesses
  uint64_t in_flight_slice_ns_ = 0;  // the same, but of each no more than until it would pause
  size_t joint_in_flight_ = 0;
  size_t tenants_there_ = 0;    // that have something here, which waits or is served
  std::vector<Session*> held_;  // closed until one that is joint has ended
  size_t most_tenants_ = kKept;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_FAIR_QUEUE_H_
