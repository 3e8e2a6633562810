// Tested by tests/e2e/serving/regions_test.py.
#include "server/services/inference/infer_regions.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/executions/arguments.h"
#include "server/engine/memory/over_limit.h"
#include "server/services/inference/region_owner.h"

namespace kiln::server {
namespace {

constexpr uint32_t kComeAgainMillis = 100;

absl::Status InRegion(const absl::Status& status, const RegionSlice& slice) {
  return status.ok() ? status : Annotate(status, absl::StrCat("shared memory region \"", slice.region, "\""));
}

bool HasRegion(const TensorOptions& options) { return options.region.has_value(); }

}  // namespace

absl::StatusOr<std::unique_ptr<InferRegions>> InferRegions::Find(const ModelCaller& caller, const InferRun& run) {
  if (run.in_regions.empty() && absl::c_none_of(run.output_options, HasRegion)) return nullptr;
  NamedRegions* const regions = caller.env.named_regions;
  if (regions == nullptr) return NoNamedRegions("parameters.shared_memory_region");
  KILN_ASSIGN_OR_RETURN(const RegionOwner owner, OwnerOf(caller.env, caller.context, caller.tenant));
  std::unique_ptr<InferRegions> found(new InferRegions(caller, &regions->copies()));
  KILN_ASSIGN_OR_RETURN(found->host_bytes_, Hold(caller.control.account, Quota::kHostBytes, 0));
  for (const InferRun::InRegion& input : run.in_regions) {
    KILN_ASSIGN_OR_RETURN(NamedRegionPtr region, found->RegionOf(owner, input.slice));
    if (input.argument.has_value()) KILN_RETURN_IF_ERROR(found->TakeRoom(input.slice.bytes));
    found->inputs_.push_back(std::move(region));
  }
  for (const TensorOptions& output : run.output_options) {
    NamedRegionPtr region;
    if (output.region.has_value()) {
      KILN_ASSIGN_OR_RETURN(region, found->RegionOf(owner, *output.region));
    }
    found->outputs_.push_back(std::move(region));
  }
  return found;
}

absl::StatusOr<NamedRegionPtr> InferRegions::RegionOf(const RegionOwner& owner, const RegionSlice& slice) const {
  KILN_ASSIGN_OR_RETURN(NamedRegionPtr region, caller_.env.named_regions->Find(owner, slice.region));
  KILN_RETURN_IF_ERROR(InRegion(region->Check(slice.offset, slice.bytes), slice));
  return region;
}

absl::Status InferRegions::TakeRoom(uint64_t bytes) {
  KILN_RETURN_IF_ERROR(host_bytes_.Grow(bytes));
  input_bytes_ += bytes;
  if (copies_.GrowTo(input_bytes_)) return absl::OkStatus();
  const ByteBudget& budget = caller_.env.named_regions->copies();
  return WithDetail(OverLimit("shared memory copies", budget.most(), input_bytes_,
                              absl::StrCat("inputs of ", input_bytes_, " bytes from shared memory; this server copies ",
                                           budget.most(), " at a time, of which ", budget.used(), " are under way")),
                    [](v1::ErrorDetail& detail) { detail.set_retry_after_ms(kComeAgainMillis); });
}

absl::Status InferRegions::Read(InferRun& run) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const InferRun::InRegion& input = run.in_regions[i];
    if (!input.argument.has_value()) continue;
    KILN_RETURN_IF_ERROR(caller_.control.Check());
    const uint64_t offset = input.slice.offset, bytes = input.slice.bytes;
    char* const data = run.read.emplace_back(std::make_unique_for_overwrite<char[]>(bytes)).get();
    KILN_RETURN_IF_ERROR(InRegion(inputs_[i]->Read(offset, bytes, data), input.slice));
    std::get<TensorView>(run.request.arguments[*input.argument].value).data = {data, bytes};
  }
  caller_.env.engine.metrics().bytes.Add(input_bytes_, Direction::kFromShared);
  return absl::OkStatus();
}

absl::Status InferRegions::CheckOutputs(const ServedModel& model, const InferRun& run) const {
  const runtime::Program& program = *model.program->program;
  BoundArguments bound;
  // What does not fit is told by running it, which it then is not.
  if (!MatchArguments(program, run.request.arguments, bound).ok()) return absl::OkStatus();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i] == nullptr) continue;
    const RegionSlice& slice = *run.output_options[i].region;
    const uint64_t bytes = program.results()[run.outputs[i]].shape.BytesAt(bound.variables);
    if (bytes <= slice.bytes) continue;
    const std::string& name = model.outputs[run.outputs[i]].name;
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field(name);
    return MakeError(std::move(detail),
                     absl::StrCat("output \"", name, "\": shared memory region \"", slice.region, "\" has ",
                                  slice.bytes, " bytes for it; it should have at least ", bytes));
  }
  return absl::OkStatus();
}

absl::Status InferRegions::Write(const InferRun& run, const ExecuteResult& result) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i] == nullptr) continue;
    // Whose caller has gone may use its memory for something else.
    KILN_RETURN_IF_ERROR(caller_.control.Check());
    const RegionSlice& slice = *run.output_options[i].region;
    const std::string& data = result.results[run.outputs[i]].data;
    // CheckOutputs has seen to it. Were it wrong for some program, that would be no reason to end everybody's server.
    if (data.size() > slice.bytes)
      return MakeError(v1::INTERNAL_FAULT, absl::StrCat("shared memory region \"", slice.region, "\" has ", slice.bytes,
                                                        " bytes for a result of ", data.size()));
    KILN_RETURN_IF_ERROR(InRegion(outputs_[i]->Write(slice.offset, data), slice));
    caller_.env.engine.metrics().bytes.Add(data.size(), Direction::kToShared);
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
