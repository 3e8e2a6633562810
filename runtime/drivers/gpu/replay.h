// Launches that come again and again, asked for as one.
//
// Asking a stream for a kernel takes a few microseconds, which is more than many kernels run. A
// graph of them takes little more than one. So the second time that a program comes with the same
// operands, its launches become a graph, and from then on that is launched.
#ifndef KILN_RUNTIME_DRIVERS_GPU_REPLAY_H_
#define KILN_RUNTIME_DRIVERS_GPU_REPLAY_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/gpu/owned.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::gpu {

// The graphs of one module. For one thread at a time.
class Replay {
 public:
  explicit Replay(Card* card) : card_(card) {}

  // Asks `stream` for the launches: by `ask`, which asks the stream it is given for them, or by a
  // graph of what that asked for.
  absl::Status Launch(absl::Span<const hal::LaunchStep> steps, void* const* operands, Stream stream,
                      absl::FunctionRef<absl::Status(Stream)> ask);

 private:
  // Steps with operands that have come.
  struct Known {
    std::vector<hal::LaunchStep> steps;
    std::vector<void*> operands;
    OwnedGraph graph;  // none the first time
  };
  Known* Find(absl::Span<const hal::LaunchStep> steps, absl::Span<void* const> operands);
  absl::Status Capture(Known& known, absl::FunctionRef<absl::Status(Stream)> ask);

  Card* const card_;
  bool broken_ = false;      // the library could not make one
  OwnedStream stream_;       // that only graphs are made with
  std::deque<Known> known_;  // the last used first
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_REPLAY_H_
