// What cards share, whichever vendor's library reaches them.
//
// A vendor's card derives from this. It adds how its library makes the card current, loads code and
// copies from another card, and what the library says of the hardware. Tested by tests/hal.
#ifndef KILN_RUNTIME_DRIVERS_GPU_LIBRARY_CARD_H_
#define KILN_RUNTIME_DRIVERS_GPU_LIBRARY_CARD_H_

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/gpu/card_library.h"

namespace kiln::runtime::gpu {

class LibraryCard : public Card {
 public:
  absl::StatusOr<Address> Allocate(uint64_t bytes) final;
  absl::Status Free(Address address) final;
  absl::StatusOr<void*> AllocatePinned(uint64_t bytes) final;
  absl::Status FreePinned(void* memory) final;

  absl::StatusOr<Stream> MakeStream() final;
  absl::Status DestroyStream(Stream stream) final;
  absl::Status Finish(Stream stream) final;

  absl::StatusOr<Event> MakeEvent() final;
  absl::StatusOr<Event> MakeTimedEvent() final;
  absl::Status DestroyEvent(Event event) final;
  absl::Status Record(Event event, Stream stream) final;
  absl::Status Wait(Event event) final;
  absl::StatusOr<bool> Happened(Event event) final;
  absl::StatusOr<double> SecondsBetween(Event from, Event to) final;
  absl::Status Follow(Stream stream, Event event) final;

  absl::Status CopyIn(Stream stream, const void* from, Address to, uint64_t bytes) final;
  absl::Status CopyOut(Stream stream, Address from, void* to, uint64_t bytes) final;
  absl::Status CopyInside(Stream stream, Address from, Address to, uint64_t bytes) final;
  absl::Status Fill(Stream stream, Address to, uint32_t value, uint32_t value_bytes, uint64_t count) final;
  absl::Status Launch(Stream stream, Function function, const LaunchShape& shape, void** parameters) final;

  absl::StatusOr<Graph> Capture(Stream stream, absl::FunctionRef<absl::Status()> launches) final;
  absl::Status LaunchGraph(Stream stream, Graph graph) final;
  absl::Status DestroyGraph(Graph graph) final;

  absl::Status Unload(Image image) final;
  absl::StatusOr<Function> Find(Image image, const std::string& symbol) final;
  absl::StatusOr<FunctionFacts> FactsOf(Function function) final;

 protected:
  // The card that the library numbers `index`, named "`kind`:<index>". `library` must outlive it: the
  // derived card holds a reference.
  LibraryCard(const CardLibrary* library, const char* kind, int index);

  // Makes this the calling thread's current card: the thread may have used another.
  virtual absl::Status MakeCurrent() = 0;
  // Makes what can be launched of what was captured.
  virtual absl::StatusOr<void*> Instantiate(void* graph) = 0;

  // Sets the card's product name and memory size by the library's `device`.
  absl::Status Describe(int device);

  template <typename Handle>
  static void* Raw(Handle handle) {
    return handle;
  }

  // A call that needs no current card.
  template <typename... Parameters, typename... Arguments>
  absl::Status Ask(const EntryPoints::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    const int code = entry.function()(arguments...);
    return code == 0 ? absl::OkStatus() : Failed(entry.name(), code);
  }

  // A call for this card.
  template <typename... Parameters, typename... Arguments>
  absl::Status Call(const EntryPoints::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    KILN_RETURN_IF_ERROR(health());
    KILN_RETURN_IF_ERROR(MakeCurrent());
    return Ask(entry, arguments...);
  }

  // A call that releases something: tried even if the card cannot be made current.
  template <typename... Parameters, typename... Arguments>
  absl::Status GiveBack(const EntryPoints::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    KILN_RETURN_IF_ERROR(health());
    MakeCurrent().IgnoreError();
    return Ask(entry, arguments...);
  }

  // The outcome of `call`, which enables access to a peer and answered `code`.
  absl::StatusOr<bool> Reached(const char* call, int code);

 private:
  absl::Status Failed(const char* call, int code);
  absl::StatusOr<Event> MakeEvent(unsigned flags);

  const CardLibrary* const library_;
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_LIBRARY_CARD_H_
