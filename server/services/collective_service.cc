// CollectiveService: buffers of several devices at once.
#include <utility>

#include "kiln/v1/collective_service.pb.h"
#include "server/messages/convert.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

using runtime::collective::Kind;

void Run(Kind kind, UnaryCall<v1::CollectiveRequest, v1::CollectiveResponse>& call) {
  auto asked = ToCollectiveRequest(kind, call.request());
  if (!asked.ok()) return call.Reply(asked.status());
  asked->caller = call.session();
  Engine& engine = call.env().engine;
  Touched touched = engine.TouchedBy(*asked);
  if (absl::Status healthy = touched.Check(); !healthy.ok()) return call.Reply(std::move(healthy));
  engine.Collective(*asked, call.control(), [&call, touched](absl::StatusOr<runtime::collective::Report> report) {
    if (absl::Status status = touched.Finish(report.status()); !status.ok()) return call.Reply(std::move(status));
    FillReport(*report, call.response());
    call.Reply(absl::OkStatus());
  });
}

}  // namespace

#define KILN_COLLECTIVE(Service, Rpc, Messages, kind, right)                                         \
  void rpc::CollectiveService::Rpc(UnaryCall<v1::Messages##Request, v1::Messages##Response>& call) { \
    Run(Kind::k##Rpc, call);                                                                         \
  }
KILN_COLLECTIVE_RPCS(KILN_COLLECTIVE)
#undef KILN_COLLECTIVE

}  // namespace kiln::server
