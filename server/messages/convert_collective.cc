// Collectives: from messages to what the engine is asked, and back.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/messages/convert.h"

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

}  // namespace

absl::StatusOr<CollectiveRequest> ToCollectiveRequest(Kind kind, const v1::CollectiveRequest& message) {
  CollectiveRequest request;
  request.kind = kind;
  KILN_ASSIGN_OR_RETURN(request.op, ToReduceOp(kind, message.op()));
  request.dtype = message.dtype();
  request.count = message.count();
  request.root = message.root();
  request.deterministic_order = message.deterministic_order();
  for (const v1::BufferRef& ref : message.input()) request.inputs.push_back(ToAddress(ref));
  for (const v1::BufferRef& ref : message.output()) request.outputs.push_back(ToAddress(ref));
  return request;
}

absl::StatusOr<CollectiveRequest> ToCollectiveRequest(const v1::CollectiveCommand& command) {
  if (command.kind() >= v1::CollectiveCommand::BROADCAST && command.kind() <= v1::CollectiveCommand::ALL_REDUCE) {
    return ToCollectiveRequest(static_cast<Kind>(command.kind() - v1::CollectiveCommand::BROADCAST), command.request());
  }
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("kind");
  return MakeError(detail, absl::StrCat("there is no collective of kind ", int{command.kind()}));
}

void FillReport(const runtime::collective::Report& report, v1::CollectiveResponse& response) {
  response.set_algorithm(report.algorithm);
  response.set_bus_bandwidth_gb_s(report.bus_gb_s);
}

void FillCollectives(const ExecuteResult& result, v1::ExecuteResponse& response) {
  for (const runtime::RanCollective& ran : result.collectives) {
    v1::CollectiveRun& message = *response.add_collectives();
    message.set_collective(std::string(runtime::collective::KindName(ran.kind)));
    message.set_bytes(ran.bytes);
    message.set_algorithm(ran.report.algorithm);
    message.set_bus_bandwidth_gb_s(ran.report.bus_gb_s);
  }
}

// The command's kinds are the runtime's, in its order.
static_assert(v1::CollectiveCommand::ALL_REDUCE - v1::CollectiveCommand::BROADCAST ==
              static_cast<int>(Kind::kAllReduce));

}  // namespace kiln::server
