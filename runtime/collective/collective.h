// Collectives: what several devices do with one tensor together.
//
// Each is a meeting of its devices' queues (meeting.h), so it is ordered with all else
// that is submitted to any of them, and never reads what is half written. An
// algorithm does it (job.h); measured thresholds choose the algorithm
// (thresholds.h).
#ifndef KILN_RUNTIME_COLLECTIVE_COLLECTIVE_H_
#define KILN_RUNTIME_COLLECTIVE_COLLECTIVE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kiln/v1/dtype.pb.h"
#include "runtime/collective/algorithms/job.h"
#include "runtime/collective/combiner.h"
#include "runtime/collective/meeting.h"
#include "runtime/collective/thresholds.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::collective {

// "all_reduce".
absl::string_view KindName(Kind kind);

// More than this take part in none.
inline constexpr uint32_t kMaxRanks = 64;

struct Request {
  Kind kind = Kind::kAllReduce;
  ReduceOp op = ReduceOp::kSum;  // of those that reduce
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  // Elements of the whole tensor. Parts of it are as PartOf cuts.
  uint64_t count = 0;
  uint32_t root = 0;  // 0 where there is none
  // By rank; each outlives the collective.
  std::vector<hal::Device*> devices;
  // By rank, or the root's alone where no other rank gives (OneInput) or receives
  // (OneOutput). Exactly as long as what it holds. The input of a rank may lie where
  // the same elements lie in its output, and else shares no byte with that.
  std::vector<hal::BufferSlice> inputs;
  std::vector<hal::BufferSlice> outputs;
  // The result shall not depend on the algorithm: values are combined in the order of
  // their ranks.
  bool deterministic_order = false;
  // For tests and measurements, where the host sees all memory; one that cannot do this
  // gives way to all-to-all.
  std::optional<AlgorithmId> algorithm;
};

struct Report {
  const char* algorithm = "";
  // From when all were there until the last had done its part.
  double seconds = 0;
  // Of the busiest link, as NCCL's tests reckon it (BusBandwidth).
  double bus_gb_s = 0;
};

// bytes / seconds * factor, in 10^9 bytes a second, where bytes are the whole tensor's
// and the factor is what one of n participants has to send or receive of them at least:
//   all_reduce                                    2 (n - 1) / n
//   all_gather, reduce_scatter, gather, scatter     (n - 1) / n
//   broadcast, reduce                               1
// (nccl-tests, doc/PERFORMANCE.md). So figures of different n can be compared with the
// speed of a link. 0 where nothing moves.
double BusBandwidth(Kind kind, uint32_t ranks, uint64_t bytes, double seconds);

// What can be said before there are buffers: BAD_ARGUMENT with `field` "participants",
// "input", "output" (how many of them there are), "root" or "dtype"; SIZE_OVERFLOW.
absl::Status CheckSizes(Kind kind, v1::DType dtype, uint64_t count, uint32_t root, size_t inputs, size_t outputs);

// OK, or what is wrong with a request, its `field` naming the part at fault ("input 2"):
//   what CheckSizes says
//   BAD_ARGUMENT           shared bytes
//   DUPLICATE_DEVICE       a device in two places
//   BUFFER_DEVICE_MISMATCH         a buffer that is not on its rank's device
//   BUFFER_SIZE_MISMATCH, OUT_OF_BOUNDS
//   BUFFER_DTYPE_MISMATCH  a slice that does not begin at a multiple of its items
// There are as many devices as inputs or, where the root alone gives, outputs.
absl::Status Check(const Request& request);

using ReportCallback = absl::AnyInvocable<void(absl::StatusOr<Report>)>;

// Safe from any thread.
class Collectives {
 public:
  // Runs a function later, on some thread that may block.
  using Background = std::function<void(absl::AnyInvocable<void()>)>;

  // `meetings` outlives all collectives. With `background`, what thresholds are not
  // known is measured there after the first collective that wants them. It, `thresholds`
  // and this outlive what is measured. With `combiner`, which outlives all collectives, devices
  // that reach each other's memory combine values themselves (by_peers.h).
  Collectives(Meetings* meetings, Thresholds* thresholds, absl::Duration timeout, Background background = nullptr,
              Combiner* combiner = nullptr);

  // Does not block. `done` gets the errors of Check and of Meetings::Submit, and
  // OUT_OF_MEMORY (by_host.h); in each case nothing was written. The error of a device that
  // was lost meanwhile leaves the outputs with anything. Where devices are of several processes, also those of
  // RunAcross (across.h). It is called once, on this thread or a queue's, and must
  // not block. The slices are held until then.
  void Run(Request request, const hal::LaunchControl& control, ReportCallback done);

  // `done` gets OK when each device has done what was submitted to it before, or the
  // errors of Meetings::Submit. No queue stands still for another.
  void WhenReady(std::vector<hal::Device*> devices, const hal::LaunchControl& control, hal::DoneCallback done);

 private:
  void MeasureLater(const Request& request);

  Meetings* const meetings_;
  Thresholds* const thresholds_;
  const absl::Duration timeout_;
  const Background background_;
  Combiner* const combiner_;
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_COLLECTIVE_H_
