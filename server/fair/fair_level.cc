#include "server/fair/fair_level.h"

#include <algorithm>
#include <cmath>

namespace kiln::server {

void FairLevel::Settle(Flow& flow) {
  size_t place = flow.place_;
  while (place > 0 && Before(flow, *ready_[(place - 1) / 2])) {
    Set(place, ready_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  for (size_t child = 2 * place + 1; child < ready_.size(); child = 2 * place + 1) {
    if (child + 1 < ready_.size() && Before(*ready_[child + 1], *ready_[child])) ++child;
    if (!Before(*ready_[child], flow)) break;
    Set(place, ready_[child]);
    place = child;
  }
  Set(place, &flow);
}

void FairLevel::Put(Flow& flow) {
  flow.key_ = flow.tag_ - flow.credit;
  if (flow.place_ == Flow::kNowhere) {
    ready_.push_back(&flow);
    flow.place_ = ready_.size() - 1;
  }
  Settle(flow);
}

void FairLevel::Take(Flow& flow) {
  if (flow.place_ == Flow::kNowhere) return;
  Flow* const last = ready_.back();
  ready_.pop_back();
  if (last != &flow) {
    Set(flow.place_, last);
    Settle(*last);
  }
  flow.place_ = Flow::kNowhere;
}

void FairLevel::Wake(Flow& flow, bool anew) {
  if (flow.place_ != Flow::kNowhere) return;
  if (anew) flow.tag_ = std::max(now_, flow.tag_);
  flow.order_ = ++orders_;
  Put(flow);
}

void FairLevel::Sleep(Flow& flow) {
  if (flow.place_ == Flow::kNowhere) return;
  Take(flow);
  CatchUp();
}

void FairLevel::Serve(Flow& flow, double cost) {
  Take(flow);
  // v does not follow a flow whose credit has put it before its tag: a newcomer would then stand behind all that wait.
  now_ = std::max(now_, ready_.empty() ? flow.tag_ : std::min(flow.tag_, First()->key_));
  flow.tag_ += cost / flow.weight;
  Raise(flow.tag_);
  ++flow.served_;
  ++served_;
}

void FairLevel::Pause(Flow& flow, double more) {
  flow.tag_ += more / flow.weight;
  Raise(flow.tag_);
  --flow.served_;
  --served_;
  if (flow.place_ != Flow::kNowhere) Put(flow);
}

void FairLevel::End(Flow& flow, double more) {
  Pause(flow, more);
  CatchUp();
}

void FairLevel::Charge(Flow& flow, double cost) {
  flow.tag_ = std::max(now_, flow.tag_) + cost / flow.weight;
  Raise(flow.tag_);
  if (flow.place_ != Flow::kNowhere) Put(flow);
  CatchUp();
}

double FairLevel::Ahead(const Flow* flow, double weight, double credit, double own) const {
  const double tag = flow == nullptr ? now_ : flow->waiting > 0 ? flow->tag_ : std::max(now_, flow->tag_);
  const double key = tag - credit + own / weight;
  double ahead = 0;
  for (size_t i = 0; i < std::min(ready_.size(), kMaxLooked); ++i) {
    const Flow& other = *ready_[i];
    if (&other == flow || other.key_ > key || other.waiting_ns == 0) continue;
    const double all = static_cast<double>(other.waiting_ns), each = all / static_cast<double>(other.waiting);
    // One, and more for as long as those before them leave it first.
    ahead += std::min(all, each * (1 + std::floor((key - other.key_) * other.weight / each)));
  }
  return ahead;
}

}  // namespace kiln::server
