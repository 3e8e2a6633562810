#include "client/play/methods.h"

#include <vector>

#include "absl/strings/str_replace.h"
#include "kiln/v1/buffer_service.pb.h"
#include "kiln/v1/collective_service.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/session_service.pb.h"

namespace kiln::play {
namespace {

template <typename Request, typename Response>
Method Row(const char* name) {
  return {name, &Request::default_instance(), &Response::default_instance()};
}

}  // namespace

std::string Method::path() const { return "/kiln.v1." + absl::StrReplaceAll(name, {{".", "/"}}); }

const Method* FindMethod(const std::string& name) {
  using Collective = v1::CollectiveRequest;
  using Collected = v1::CollectiveResponse;
  static const auto* rows = new std::vector<Method>{
      Row<v1::CompileRequest, v1::CompileResponse>("KernelService.Compile"),
      Row<v1::ExecuteRequest, v1::ExecuteResponse>("KernelService.Execute"),
      Row<v1::SubmitRequest, v1::SubmitResponse>("KernelService.Submit"),
      Row<v1::RecordSequenceRequest, v1::RecordSequenceResponse>("KernelService.RecordSequence"),
      Row<v1::ReplaySequenceRequest, v1::ReplaySequenceResponse>("KernelService.ReplaySequence"),
      Row<v1::AllocateRequest, v1::AllocateResponse>("BufferService.Allocate"),
      Row<v1::WriteRequest, v1::WriteResponse>("BufferService.Write"),
      Row<v1::ReadRequest, v1::ReadResponse>("BufferService.Read"),
      Row<v1::CopyRequest, v1::CopyResponse>("BufferService.Copy"),
      Row<v1::FillRequest, v1::FillResponse>("BufferService.Fill"),
      Row<v1::ViewRequest, v1::ViewResponse>("BufferService.View"),
      Row<v1::FreeRequest, v1::FreeResponse>("BufferService.Free"),
      Row<v1::LoadRequest, v1::LoadResponse>("BufferService.Load"),
      Row<Collective, Collected>("CollectiveService.Broadcast"),
      Row<Collective, Collected>("CollectiveService.Scatter"),
      Row<Collective, Collected>("CollectiveService.Gather"),
      Row<Collective, Collected>("CollectiveService.Reduce"),
      Row<Collective, Collected>("CollectiveService.AllGather"),
      Row<Collective, Collected>("CollectiveService.ReduceScatter"),
      Row<Collective, Collected>("CollectiveService.AllReduce"),
      Row<v1::OpenSessionRequest, v1::OpenSessionResponse>("SessionService.Open"),
      Row<v1::CloseSessionRequest, v1::CloseSessionResponse>("SessionService.Close"),
  };
  for (const Method& row : *rows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace kiln::play
