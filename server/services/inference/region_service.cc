// GRPCInferenceService's RPCs for shared memory. That of the system is registered by name
// (server/shared_memory/named_regions.h). CUDA's is not served: a handle of it tells nobody whose memory it is, so that
// any caller could have another's opened.
//
// Tested by tests/e2e/serving/regions_test.py.
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/services/inference/region_owner.h"
#include "server/services/rpcs.h"
#include "server/shared_memory/named_regions.h"

namespace kiln::server {
namespace {

// What the caller's regions are kept under; `rpc` is the call.
template <typename Call>
absl::StatusOr<RegionOwner> OwnerOf(const Call& call, absl::string_view rpc) {
  if (call.env().named_regions == nullptr) return NoNamedRegions(absl::StrCat("GRPCInferenceService.", rpc));
  return OwnerOf(call.env(), call.context(), call.tenant());
}

void FillStatus(const std::string& name, const NamedRegion& region,
                inference::SystemSharedMemoryStatusResponse& answer) {
  auto& row = (*answer.mutable_regions())[name];
  row.set_name(name);
  row.set_key(region.key());
  row.set_offset(region.offset());
  row.set_byte_size(region.bytes());
}

}  // namespace

void rpc::GRPCInferenceService::SystemSharedMemoryStatus(
    UnaryCall<inference::SystemSharedMemoryStatusRequest, inference::SystemSharedMemoryStatusResponse>& call) {
  const auto owner = OwnerOf(call, "SystemSharedMemoryStatus");
  if (!owner.ok()) return call.Reply(owner.status());
  const NamedRegions& regions = *call.env().named_regions;
  if (const std::string& name = call.request().name(); !name.empty()) {
    const auto region = regions.Find(*owner, name);
    if (region.ok()) FillStatus(name, **region, call.response());
    return call.Reply(region.status());
  }
  for (const auto& [name, region] : regions.Of(*owner)) FillStatus(name, *region, call.response());
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::SystemSharedMemoryRegister(
    UnaryCall<inference::SystemSharedMemoryRegisterRequest, inference::SystemSharedMemoryRegisterResponse>& call) {
  const auto owner = OwnerOf(call, "SystemSharedMemoryRegister");
  if (!owner.ok()) return call.Reply(owner.status());
  const inference::SystemSharedMemoryRegisterRequest& asked = call.request();
  call.Reply(call.env().named_regions->Register(*owner, asked.name(), asked.key(), asked.offset(), asked.byte_size(),
                                                call.control().account));
}

void rpc::GRPCInferenceService::SystemSharedMemoryUnregister(
    UnaryCall<inference::SystemSharedMemoryUnregisterRequest, inference::SystemSharedMemoryUnregisterResponse>& call) {
  const auto owner = OwnerOf(call, "SystemSharedMemoryUnregister");
  if (owner.ok()) call.env().named_regions->Unregister(*owner, call.request().name());
  call.Reply(owner.status());
}

void rpc::GRPCInferenceService::CudaSharedMemoryStatus(
    UnaryCall<inference::CudaSharedMemoryStatusRequest, inference::CudaSharedMemoryStatusResponse>& call) {
  const std::string& name = call.request().name();
  if (name.empty()) return call.Reply(absl::OkStatus());
  const std::string shown = absl::CHexEscape(name.substr(0, NamedRegions::kMaxNameBytes));
  v1::ErrorDetail detail;
  detail.set_code(v1::UNKNOWN_HANDLE);
  detail.set_field(shown);
  call.Reply(MakeError(std::move(detail), absl::StrCat("unable to find CUDA shared memory region: \"", shown, "\"")));
}

void rpc::GRPCInferenceService::CudaSharedMemoryRegister(
    UnaryCall<inference::CudaSharedMemoryRegisterRequest, inference::CudaSharedMemoryRegisterResponse>& call) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_IMPLEMENTED);
  detail.set_field("GRPCInferenceService.CudaSharedMemoryRegister");
  call.Reply(MakeError(std::move(detail),
                       "GRPCInferenceService.CudaSharedMemoryRegister: this server takes no CUDA shared memory, since "
                       "a handle of it does "
                       "not tell whose memory it is; use system shared memory"));
}

void rpc::GRPCInferenceService::CudaSharedMemoryUnregister(
    UnaryCall<inference::CudaSharedMemoryUnregisterRequest, inference::CudaSharedMemoryUnregisterResponse>& call) {
  // There is none, so that none is left.
  call.Reply(absl::OkStatus());
}

}  // namespace kiln::server
