// The tensors of a request for a model that are in shared memory which the caller has registered by name.
#ifndef KILN_SERVER_SERVICES_INFERENCE_INFER_REGIONS_H_
#define KILN_SERVER_SERVICES_INFERENCE_INFER_REGIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/account.h"
#include "base/byte_budget.h"
#include "server/models/infer.h"
#include "server/services/inference/inference.h"
#include "server/shared_memory/named_regions.h"

namespace kiln::server {

// Of one run: not for several threads. Keeps the regions, also those that are unregistered meanwhile, and what the
// copies of inputs take.
class InferRegions {
 public:
  // Those that `run` names; null if it names none. Nothing is read yet. UNKNOWN_HANDLE, BAD_ARGUMENT and NOT_ALLOWED of
  // NamedRegions, with the region in the text; NOT_IMPLEMENTED on a server that takes none; OUT_OF_MEMORY with the
  // limit "shared memory copies" and when to come again; QUOTA_EXCEEDED.
  static absl::StatusOr<std::unique_ptr<InferRegions>> Find(const ModelCaller& caller, const InferRun& run);

  uint64_t input_bytes() const { return input_bytes_; }

  // Whether the results will have room in their regions, by the sizes that the request has: before anything is run, for
  // what moves a sequence on cannot be undone. BAD_ARGUMENT, whose field is the output.
  absl::Status CheckOutputs(const ServedModel& model, const InferRun& run) const;

  // Fills the arguments of `run`. BAD_SHARED_MEMORY.
  absl::Status Read(InferRun& run) const;
  // Writes the results that are to go to a region, in which they have room. BAD_SHARED_MEMORY: then some may have been
  // written.
  absl::Status Write(const InferRun& run, const ExecuteResult& result) const;

 private:
  InferRegions(const ModelCaller& caller, ByteBudget* copies) : caller_(caller), copies_(copies) {}

  // NOT_ALLOWED, UNKNOWN_HANDLE, BAD_ARGUMENT.
  absl::StatusOr<NamedRegionPtr> RegionOf(const RegionOwner& owner, const RegionSlice& slice) const;
  absl::Status TakeRoom(uint64_t bytes);

  const ModelCaller caller_;
  std::vector<NamedRegionPtr> inputs_;   // as run.in_regions
  std::vector<NamedRegionPtr> outputs_;  // as run.outputs; null for those that go by the message
  uint64_t input_bytes_ = 0;
  ByteBudget::Share copies_;
  Charge host_bytes_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_INFERENCE_INFER_REGIONS_H_
