// What a card has made, given back when it is not needed any more.
#ifndef KILN_RUNTIME_DRIVERS_GPU_OWNED_H_
#define KILN_RUNTIME_DRIVERS_GPU_OWNED_H_

#include <utility>

#include "runtime/drivers/gpu/card.h"

namespace kiln::runtime::gpu {

// The card outlives it. That a lost card takes nothing back is no news.
template <typename Thing, absl::Status (Card::*give_back)(Thing)>
class Owned {
 public:
  Owned() = default;
  Owned(Card* card, Thing thing) : card_(card), thing_(thing) {}
  Owned(Owned&& other) noexcept : card_(std::exchange(other.card_, nullptr)), thing_(other.thing_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(card_, other.card_);
    std::swap(thing_, other.thing_);
    return *this;
  }
  ~Owned() {
    if (card_ != nullptr) (card_->*give_back)(thing_).IgnoreError();
  }

  Thing get() const { return thing_; }
  explicit operator bool() const { return card_ != nullptr; }

 private:
  Card* card_ = nullptr;
  Thing thing_ = {};
};

using OwnedMemory = Owned<Address, &Card::Free>;
using OwnedPinned = Owned<void*, &Card::FreePinned>;
using OwnedStream = Owned<Stream, &Card::DestroyStream>;
using OwnedEvent = Owned<Event, &Card::DestroyEvent>;
using OwnedGraph = Owned<Graph, &Card::DestroyGraph>;
using OwnedImage = Owned<Image, &Card::Unload>;

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_OWNED_H_
