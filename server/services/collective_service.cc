#include "server/services/collective_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/collective.h"
#include "server/services/call.h"
#include "server/services/convert.h"

namespace kiln::server {
namespace {

using runtime::collective::Kind;
using runtime::collective::ReduceOp;

absl::Status BadOp(Kind kind, v1::Op op, absl::string_view wanted) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("op");
  const auto* name = google::protobuf::GetEnumDescriptor<v1::Op>()->FindValueByNumber(op);
  return MakeError(detail, absl::StrCat(runtime::collective::KindName(kind), " takes ", wanted, ", not ",
                                        name == nullptr ? absl::StrCat(int{op}) : name->name()));
}

absl::StatusOr<ReduceOp> ToReduceOp(Kind kind, v1::Op op) {
  if (!Reduces(kind)) {
    if (op != v1::OP_UNSPECIFIED) return BadOp(kind, op, "no op");
    return ReduceOp::kSum;
  }
  switch (op) {
    case v1::ADD: return ReduceOp::kSum;
    case v1::MUL: return ReduceOp::kProd;
    case v1::MAX: return ReduceOp::kMax;
    default: return BadOp(kind, op, "ADD, MUL or MAX");
  }
}

absl::StatusOr<CollectiveRequest> ToRequest(Kind kind, const v1::CollectiveRequest& message, SessionPtr caller) {
  CollectiveRequest request;
  request.kind = kind;
  KILN_ASSIGN_OR_RETURN(request.op, ToReduceOp(kind, message.op()));
  request.dtype = message.dtype();
  request.count = message.count();
  request.root = message.root();
  request.deterministic_order = message.deterministic_order();
  for (const v1::BufferRef& ref : message.input()) request.inputs.push_back(ToAddress(ref));
  for (const v1::BufferRef& ref : message.output()) request.outputs.push_back(ToAddress(ref));
  request.caller = std::move(caller);
  return request;
}

grpc::ServerUnaryReactor* Run(Kind kind, const ServiceEnv& env, grpc::CallbackServerContext* context,
                              const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::CollectiveRequest, v1::CollectiveResponse>(
      env, context, request, response, [kind, &engine = env.engine](auto& call) {
        const auto asked = ToRequest(kind, call.request(), call.session());
        if (!asked.ok()) return call.Reply(asked.status());
        engine.Collective(*asked, call.control(), [&call](absl::StatusOr<runtime::collective::Report> report) {
          if (!report.ok()) return call.Reply(std::move(report).status());
          call.response().set_algorithm(report->algorithm);
          call.response().set_bus_bandwidth_gb_s(report->bus_gb_s);
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
