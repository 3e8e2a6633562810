// Start-time fair queueing among flows: who is served next, so that each gets its weight's part
// of what is served, whatever the sizes are and whoever asks most.
//
// Every flow has a tag, on a clock of its own: virtual time, in nanoseconds of service for a
// weight of 1. What it asks for next begins at S = max(v, F), where F is where its last one
// ended and v is now, the S of what is served, or of who is next if that is less. It ends at F = S + cost / weight. Who
// has the smallest S is next. So who had less than its part is before who had more; who asked for nothing gets nothing
// for that, as v went on without it; and once nobody asks, v goes to the greatest F.
//
// (P. Goyal, H. Vin, H. Cheng: Start-time Fair Queueing, SIGCOMM 1996.)
#ifndef KILN_SERVER_FAIR_FAIR_LEVEL_H_
#define KILN_SERVER_FAIR_FAIR_LEVEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::server {

// Owns no flow. Each call takes the logarithm of the flows' number. Not safe from several threads.
class FairLevel {
 public:
  struct Flow {
    double weight = 1;  // above 0
    // In virtual time: so much earlier than its tag says it is served.
    double credit = 0;
    // Its owner's, for Ahead: how much it asks for, one after the other, and what that is thought to cost.
    size_t waiting = 0;
    uint64_t waiting_ns = 0;

   private:
    friend class FairLevel;
    static constexpr size_t kNowhere = ~size_t{0};
    double tag_ = 0;
    double key_ = 0;      // under which it asks
    uint64_t order_ = 0;  // among equals, the first to come
    size_t served_ = 0;   // and not ended
    size_t place_ = kNowhere;
  };

  // It asks for something, and may be served; `anew`: until now it asked for nothing. Who goes on
  // asking keeps its tag, also where that is before v since less was taken than was thought.
  void Wake(Flow& flow, bool anew);
  // It asks for nothing now, or must not be served.
  void Sleep(Flow& flow);

  // Who is next; null if nobody asks.
  Flow* First() const { return ready_.empty() ? nullptr : ready_.front(); }

  // Serves what it asks for, which is thought to cost so much. From then on it sleeps.
  void Serve(Flow& flow, double cost);
  // One that was served has ended, and cost so much more, or less, than was thought.
  void End(Flow& flow, double more);
  // The same of one that is to go on, at once or after others: it is not served until it is again, but nobody was idle
  // for that, so v stays, and does not go to what had been charged for all of it.
  void Pause(Flow& flow, double more);

  // What was not asked for here has cost so much.
  void Charge(Flow& flow, double cost);

  // Whether it neither asks nor is served, and owes nothing: it may be deleted, and would begin anew
  // as it would go on.
  bool Forgettable(const Flow& flow) const {
    return flow.place_ == Flow::kNowhere && flow.served_ == 0 && flow.tag_ <= now_;
  }
  // It does not ask until it wakes again: so that its weight or credit can be changed.
  void Take(Flow& flow);

  // What others ask for now and are served, by what it is thought to cost, before the flow is that has `own` of its own
  // before it; null: a new one. Of many that ask, only kMaxLooked are looked at, those that are next among them: what
  // comes of it is then too little.
  static constexpr size_t kMaxLooked = 128;
  double Ahead(const Flow* flow, double weight, double credit, double own) const;

  bool idle() const { return ready_.empty() && served_ == 0; }

 private:
  // A heap of those that ask, by key; each knows its place.
  static bool Before(const Flow& a, const Flow& b) { return a.key_ != b.key_ ? a.key_ < b.key_ : a.order_ < b.order_; }
  void Put(Flow& flow);
  void Set(size_t place, Flow* flow) {
    ready_[place] = flow;
    flow->place_ = place;
  }
  // Moves it to where its key belongs.
  void Settle(Flow& flow);
  void Raise(double tag) { last_ = tag > last_ ? tag : last_; }
  void CatchUp() {
    if (idle()) now_ = last_ > now_ ? last_ : now_;
  }

  std::vector<Flow*> ready_;
  double now_ = 0;   // v
  double last_ = 0;  // the greatest tag
  size_t served_ = 0;
  uint64_t orders_ = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_FAIR_LEVEL_H_
