#include "server/services/collective_service.h"

#include <utility>

#include "server/messages/convert.h"
#include "server/services/call.h"

namespace kiln::server {
namespace {

using runtime::collective::Kind;

grpc::ServerUnaryReactor* Run(Kind kind, const ServiceEnv& env, grpc::CallbackServerContext* context,
                              const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::CollectiveRequest, v1::CollectiveResponse>(
      env, context, request, response, [kind, &engine = env.engine](auto& call) {
        auto asked = ToCollectiveRequest(kind, call.request());
        if (!asked.ok()) return call.Reply(asked.status());
        asked->caller = call.session();
        Touched touched = engine.TouchedBy(*asked);
        if (absl::Status healthy = touched.Check(); !healthy.ok()) return call.Reply(std::move(healthy));
        engine.Collective(*asked, call.control(), [&call, touched](absl::StatusOr<runtime::collective::Report> report) {
          if (absl::Status status = touched.Finish(report.status()); !status.ok()) return call.Reply(std::move(status));
          FillReport(*report, call.response());
          call.Reply(absl::OkStatus());
        });
      });
}

}  // namespace

#define KILN_COLLECTIVE(Rpc)                                                                                          \
  grpc::ServerUnaryReactor* CollectiveServiceImpl::Rpc(grpc::CallbackServerContext* context,                          \
                                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response) { \
    return Run(Kind::k##Rpc, env_, context, request, response);                                                       \
  }
KILN_COLLECTIVE(Broadcast)
KILN_COLLECTIVE(Scatter)
KILN_COLLECTIVE(Gather)
KILN_COLLECTIVE(Reduce)
KILN_COLLECTIVE(AllGather)
KILN_COLLECTIVE(ReduceScatter)
KILN_COLLECTIVE(AllReduce)
#undef KILN_COLLECTIVE

}  // namespace kiln::server
