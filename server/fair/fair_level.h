// Start-time fair queueing among flows: who is served next, so that each gets its weight's part
// of what is served, whatever the sizes are and whoever asks most.
//
// Every flow has a tag, on a clock of its own: virtual time, in nanoseconds of service for a
// weight of 1. What it asks for next begins at S = max(v, F), where F is where its last one
// ended and v is now, the S of what is served. It ends at F = S + cost / weight. Who has the
// smallest S is next. So who had less than its part is before who had more; who asked for nothing
// gets nothing for that, as v went on without it; and once nobody asks, v goes to the greatest F.
//
// (P. Goyal, H. Vin, H. Cheng: Start-time Fair Queueing, SIGCOMM 1996.)
#ifndef KILN_SERVER_FAIR_FAIR_LEVEL_H_
#define KILN_SERVER_FAIR_FAIR_LEVEL_H_

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "absl/container/btree_set.h"

namespace kiln::server {

// Owns no flow. Each call takes the logarithm of the flows' number. Not safe from several threads.
class FairLevel {
 public:
  struct Flow {
    double weight = 1;  // above 0
    // In virtual time: so much earlier than its tag says it is served.
    double credit = 0;

   private:
    friend class FairLevel;
    enum class Place : uint8_t { kNone, kReady, kIdle };
    double tag_ = 0;
    double key_ = 0;      // under which it is where it is
    uint64_t order_ = 0;  // among equals, the first to come
    size_t served_ = 0;   // and not ended
    Place place_ = Place::kNone;
  };

  // It asks for something, and may be served; `anew`: until now it asked for nothing. Who goes on
  // asking keeps its tag, also where that is before v since less was taken than was thought.
  void Wake(Flow& flow, bool anew);
  // It asks for nothing now, or must not be served.
  void Sleep(Flow& flow);

  // Who is next; null if nobody asks.
  Flow* First() const { return ready_.empty() ? nullptr : std::get<2>(*ready_.begin()); }

  // Serves what it asks for, which is thought to cost so much. From then on it sleeps.
  void Serve(Flow& flow, double cost);
  // One that was served has ended, and cost so much more, or less, than was thought.
  void End(Flow& flow, double more);

  // What was not asked for here has cost so much.
  void Charge(Flow& flow, double cost);

  // When it neither asks nor is served: it is Forgettable once v has reached its tag.
  void Rest(Flow& flow);
  // The next that may be deleted, which is known here no more; null if there is none.
  Flow* Forgettable();
  // Before it is deleted otherwise, or used again after Rest: Wake does this by itself.
  void Take(Flow& flow);

  bool idle() const { return ready_.empty() && served_ == 0; }
  size_t ready() const { return ready_.size(); }
  // Of those that ask.
  double ready_weight() const { return ready_weight_; }

 private:
  using Set = absl::btree_set<std::tuple<double, uint64_t, Flow*>>;
  void Put(Flow& flow, Flow::Place place, double key);
  void Raise(double tag) { last_ = tag > last_ ? tag : last_; }
  void CatchUp() {
    if (idle()) now_ = last_ > now_ ? last_ : now_;
  }

  Set ready_, idle_;
  double now_ = 0;   // v
  double last_ = 0;  // the greatest tag
  double ready_weight_ = 0;
  size_t served_ = 0;
  uint64_t orders_ = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_FAIR_LEVEL_H_
