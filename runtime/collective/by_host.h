// Collectives over memory that the host does not see, through windows that it does.
//
// Each participant takes pieces of the tensor in turn, fetches what the inputs have there, combines
// it, and puts it where the outputs have it. So the host's memory that it takes is bounded, whatever
// the tensors' size, and there is all of it before the participants meet. Values are combined in the
// order of their ranks.
#ifndef KILN_RUNTIME_COLLECTIVE_BY_HOST_H_
#define KILN_RUNTIME_COLLECTIVE_BY_HOST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/collective/algorithms/job.h"
#include "runtime/collective/place.h"

namespace kiln::runtime::collective {

class ByHost {
 public:
  static constexpr char kName[] = "by_host";

  // The most host memory of one collective.
  static constexpr uint64_t kMaxBytes = 96 << 20;

  // `job` has no addresses: `inputs` and `outputs`, by rank, stand for them. It outlives this.
  // OUT_OF_MEMORY if the host has no memory for the windows.
  static absl::StatusOr<std::unique_ptr<ByHost>> Make(const Job& job, std::vector<Place> inputs,
                                                      std::vector<Place> outputs);

  // One participant's share; all call it at the same time. The first failure ends the work of all.
  absl::Status Run(uint32_t rank);

 private:
  struct Window {
    std::unique_ptr<char[]> items;
    // Of what reduces: the result so far, and what comes to it. The latter is `items` where items
    // are accumulators.
    std::unique_ptr<char[]> total, more;
  };

  ByHost(const Job& job, std::vector<Place> inputs, std::vector<Place> outputs);
  absl::Status TakeWindows();
  absl::Status DoPiece(const Window& window, uint64_t begin, uint64_t end);
  absl::Status Reduce(const Window& window, uint64_t begin, uint64_t end);
  absl::Status Fetch(const Place& place, uint64_t offset, uint64_t bytes, char* to) const;
  absl::Status Put(const Place& place, uint64_t offset, uint64_t bytes, const char* from) const;

  const Job& job_;
  const std::vector<Place> inputs_, outputs_;
  uint64_t piece_ = 0;           // elements of a window
  std::vector<Window> windows_;  // by rank
  std::atomic<bool> failed_ = false;
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_BY_HOST_H_
