#include "server/fair/fair_level.h"

#include <algorithm>

namespace kiln::server {

void FairLevel::Put(Flow& flow, Flow::Place place, double key) {
  Take(flow);
  flow.key_ = key;
  flow.place_ = place;
  if (place == Flow::Place::kReady) ready_weight_ += flow.weight;
  (place == Flow::Place::kReady ? ready_ : idle_).emplace(key, flow.order_, &flow);
}

void FairLevel::Take(Flow& flow) {
  if (flow.place_ == Flow::Place::kNone) return;
  const bool ready = flow.place_ == Flow::Place::kReady;
  (ready ? ready_ : idle_).erase({flow.key_, flow.order_, &flow});
  // The sum of none is 0, however it was rounded.
  if (ready) ready_weight_ = ready_.empty() ? 0 : ready_weight_ - flow.weight;
  flow.place_ = Flow::Place::kNone;
}

void FairLevel::Wake(Flow& flow, bool anew) {
  if (flow.place_ == Flow::Place::kReady) return;
  if (anew) flow.tag_ = std::max(now_, flow.tag_);
  Take(flow);
  flow.order_ = ++orders_;
  Put(flow, Flow::Place::kReady, flow.tag_ - flow.credit);
}

void FairLevel::Sleep(Flow& flow) {
  if (flow.place_ != Flow::Place::kReady) return;
  Take(flow);
  CatchUp();
}

void FairLevel::Serve(Flow& flow, double cost) {
  Take(flow);
  now_ = std::max(now_, flow.tag_);
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
  if (flow.place_ == Flow::Place::kReady) Put(flow, Flow::Place::kReady, flow.tag_ - flow.credit);
  CatchUp();
}

void FairLevel::Charge(Flow& flow, double cost) {
  flow.tag_ = std::max(now_, flow.tag_) + cost / flow.weight;
  Raise(flow.tag_);
  if (flow.place_ != Flow::Place::kNone) {
    Put(flow, flow.place_, flow.place_ == Flow::Place::kReady ? flow.tag_ - flow.credit : flow.tag_);
  }
  CatchUp();
}

void FairLevel::Rest(Flow& flow) {
  if (flow.served_ == 0 && flow.place_ == Flow::Place::kNone) Put(flow, Flow::Place::kIdle, flow.tag_);
}

FairLevel::Flow* FairLevel::Forgettable() {
  if (idle_.empty()) return nullptr;
  const auto& [tag, order, flow] = *idle_.begin();
  if (tag > now_) return nullptr;
  Flow* const found = flow;
  Take(*found);
  return found;
}

}  // namespace kiln::server
