#include "server/fair/fair_level.h"

#include <algorithm>

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
    ready_weight_ += flow.weight;
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
  // The sum of none is 0, however it was rounded.
  ready_weight_ = ready_.empty() ? 0 : ready_weight_ - flow.weight;
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
  // One that is before its tag, by its credit, does not take v along: who comes then would be behind all that wait.
  now_ = std::max(now_, ready_.empty() ? flow.tag_ : std::min(flow.tag_, First()->key_));
  flow.tag_ += cost / flow.weight;
  Raise(flow.tag_);
  ++flow.served_;
  ++served_;
}

void FairLevel::End(Flow& flow, double more) {
  flow.tag_ += more / flow.weight;
  Raise(flow.tag_);
  --flow.served_;
  --served_;
  if (flow.place_ != Flow::kNowhere) Put(flow);
  CatchUp();
}

void FairLevel::Charge(Flow& flow, double cost) {
  flow.tag_ = std::max(now_, flow.tag_) + cost / flow.weight;
  Raise(flow.tag_);
  if (flow.place_ != Flow::kNowhere) Put(flow);
  CatchUp();
}

}  // namespace kiln::server
