// One GPU, as its vendor's library lets a program work with it.
//
// What the libraries of NVIDIA and AMD have in common, without their types: each driver
// (runtime/drivers/cuda, runtime/drivers/hip) has one implementation, a thin one, and all else
// is written once against this.
#ifndef KILN_RUNTIME_DRIVERS_GPU_CARD_H_
#define KILN_RUNTIME_DRIVERS_GPU_CARD_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "kiln/v1/target.pb.h"

namespace kiln::runtime::gpu {

// An address in the GPU's memory; 0 is none.
using Address = uint64_t;

// Things of the vendor's library.
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Image = struct ImageTag*;  // loaded code
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;  // launches that are asked for as one

struct CardFacts {
  std::string name;     // "CUDA:0"
  int number = 0;       // the library's
  std::string product;  // "NVIDIA H200"
  std::string driver;   // "CUDA 13.0"
  v1::Target target;
  uint64_t memory_bytes = 0;
  // Limits of a launch. Shared memory: of one group, as much as a kernel may ask for.
  std::array<uint64_t, 3> max_groups = {};
  std::array<uint64_t, 3> max_items = {};
  uint64_t max_items_of_group = 0;
  uint64_t max_items_along = ~uint64_t{0};  // an axis, of all groups
  uint64_t max_shared_bytes = 0;
};

struct FunctionFacts {
  uint64_t max_items = 0;  // of a group: its registers may leave room for fewer than the card takes
  uint64_t static_shared_bytes = 0;
  uint64_t registers = 0;
};

struct LaunchShape {
  std::array<uint32_t, 3> groups = {1, 1, 1};
  std::array<uint32_t, 3> items = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
};

// A tensor in the card's memory, of which its copy engine takes boxes. Axes innermost first.
struct TensorMap {
  Address address = 0;  // a multiple of 16
  uint32_t element_bytes = 0;
  uint32_t axes = 0;
  std::array<uint64_t, 5> sizes = {};
  std::array<uint64_t, 4> strides_bytes = {};
  std::array<uint32_t, 5> box = {};
  uint32_t swizzle_bytes = 0;
};
// As kernels take it.
struct alignas(128) EncodedTensorMap {
  char bytes[128] = {};
};

// Safe from any thread. Every call that fails says which of the library's functions did, with
// the library's own name and text for the error: OUT_OF_MEMORY where it is that; where the GPU
// or all that the process has on it is gone, PARTICIPANT_MISSING naming the card, and so does
// every later call; else INTERNAL_FAULT. An error of earlier work in a stream may come from any
// later call.
class Card {
 public:
  virtual ~Card() = default;

  const CardFacts& facts() const { return facts_; }

  // OK, or what the card was lost by.
  absl::Status health() const;

  // Lets this card read the memory of another, of the same library: then copies from there do not
  // go by the host's. False if the hardware does not connect the two.
  virtual absl::StatusOr<bool> ReachPeer(const Card& peer) = 0;

  virtual absl::StatusOr<Address> Allocate(uint64_t bytes) = 0;  // not none
  // Waits for all work that may use it.
  virtual absl::Status Free(Address address) = 0;

  // Host memory that the GPU reads and writes by itself.
  virtual absl::StatusOr<void*> AllocatePinned(uint64_t bytes) = 0;
  virtual absl::Status FreePinned(void* memory) = 0;

  // A stream does one thing after the other, beside other streams.
  virtual absl::StatusOr<Stream> MakeStream() = 0;
  virtual absl::Status DestroyStream(Stream stream) = 0;
  // Waits until all is done that was asked of it.
  virtual absl::Status Finish(Stream stream) = 0;

  virtual absl::StatusOr<Event> MakeEvent() = 0;
  virtual absl::Status DestroyEvent(Event event) = 0;
  // The event happens when the stream has come so far.
  virtual absl::Status Record(Event event, Stream stream) = 0;
  virtual absl::Status Wait(Event event) = 0;
  // Whether it has happened. An error of the work before it is one of this.
  virtual absl::StatusOr<bool> Happened(Event event) = 0;
  // The same, with the time at which it happens; how many seconds after the other that was, once
  // both have happened.
  virtual absl::StatusOr<Event> MakeTimedEvent() = 0;
  virtual absl::StatusOr<double> SecondsBetween(Event from, Event to) = 0;
  // What the stream is asked for from now on begins after the event as it was last recorded.
  virtual absl::Status Follow(Stream stream, Event event) = 0;

  // What a stream is asked for; none of it waits. Host memory is pinned. Ranges do not overlap.
  virtual absl::Status CopyIn(Stream stream, const void* from, Address to, uint64_t bytes) = 0;
  virtual absl::Status CopyOut(Stream stream, Address from, void* to, uint64_t bytes) = 0;
  virtual absl::Status CopyInside(Stream stream, Address from, Address to, uint64_t bytes) = 0;
  // From another card's memory, to this one's; both are of one library.
  virtual absl::Status CopyFromPeer(Stream stream, const Card& peer, Address from, Address to, uint64_t bytes) = 0;
  // `count` values of 1, 2 or 4 bytes, at an address that is a multiple of that.
  virtual absl::Status Fill(Stream stream, Address to, uint32_t value, uint32_t value_bytes, uint64_t count) = 0;
  // `parameters`: where each of the kernel's parameters is; they are read during the call.
  virtual absl::Status Launch(Stream stream, Function function, const LaunchShape& shape, void** parameters) = 0;

  // What `launches` asks `stream` for is not done but becomes a graph. No other thread may use the
  // stream meanwhile.
  virtual absl::StatusOr<Graph> Capture(Stream stream, absl::FunctionRef<absl::Status()> launches) = 0;
  virtual absl::Status LaunchGraph(Stream stream, Graph graph) = 0;
  virtual absl::Status DestroyGraph(Graph graph) = 0;

  // `code` is what Executable.object has. A failure brings the vendor's log.
  virtual absl::StatusOr<Image> Load(const std::string& code) = 0;
  virtual absl::Status Unload(Image image) = 0;
  virtual absl::StatusOr<Function> Find(Image image, const std::string& symbol) = 0;
  virtual absl::StatusOr<FunctionFacts> FactsOf(Function function) = 0;
  // Lets launches have so much shared memory beside what the code declares itself.
  virtual absl::Status AllowShared(Function function, uint64_t dynamic_bytes) = 0;

  // Empty, or why the card, or its driver, has no tensor maps: requests for one are refused.
  virtual std::string WhyNoTensorMaps() const { return "there is no copy engine that uses them"; }
  virtual absl::Status Encode(const TensorMap& map, EncodedTensorMap& encoded);

 protected:
  // The error of a call that did not return success.
  absl::Status Failure(absl::string_view call, int code, absl::string_view name, absl::string_view text);

  // What waiting for the card came to. If it failed, what was waited for may go on, in memory
  // that others are given: the card is lost.
  absl::Status Waited(absl::Status status);

  CardFacts facts_;  // filled in by the maker

 private:
  absl::Status Lose(absl::string_view message);

  std::atomic<bool> is_lost_ = false;
  mutable absl::Mutex mutex_;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_CARD_H_
