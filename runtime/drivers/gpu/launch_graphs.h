// Launches that come again and again, asked for as one.
//
// Asking a stream for a kernel takes a few microseconds, which is more than many kernels run. A
// graph of them takes little more than one. So the second time that a list of launches comes with
// the same operands it becomes a graph, or one for each of the pieces that it is asked for in, and
// from then on these are launched.
#ifndef KILN_RUNTIME_DRIVERS_GPU_LAUNCH_GRAPHS_H_
#define KILN_RUNTIME_DRIVERS_GPU_LAUNCH_GRAPHS_H_

#include <cstddef>
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

// The graphs of one launcher. For one thread at a time.
class LaunchGraphs {
 public:
  explicit LaunchGraphs(Card* card) : card_(card) {}

  // Launches with operands that have come, in pieces of so many launches.
  struct Known {
    std::vector<hal::LaunchStep> steps;
    std::vector<void*> operands;
    size_t piece = 0;
    bool again = false;              // they have come more than once
    std::vector<OwnedGraph> graphs;  // of the pieces; none where there is none yet
  };

  // What is known of launches that are to be asked for now; null if they are better asked for one
  // by one. Good until the next call. `stream` is waited for where graphs have to go for it.
  Known* Find(absl::Span<const hal::LaunchStep> steps, void* const* operands, size_t piece, Stream stream);

  // Asks `stream` for piece `number` of them, which has `count` launches: by `ask`, which asks the
  // stream that it is given, or by a graph of what that asked for.
  absl::Status Launch(Known* known, size_t number, size_t count, Stream stream,
                      absl::FunctionRef<absl::Status(Stream)> ask);

 private:
  absl::Status MakeRoom(size_t launches, Stream stream);
  absl::Status Capture(OwnedGraph& graph, absl::FunctionRef<absl::Status(Stream)> ask);

  Card* const card_;
  bool broken_ = false;      // the library could not make one
  std::deque<Known> known_;  // the last used first
  size_t launches_ = 0;      // of them all
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_LAUNCH_GRAPHS_H_
