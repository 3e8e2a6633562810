// What people look at, and have measured: DebugService's calls. Apart from client.cc, since its messages are many.
//
// Tested by client/cpp/client_test.cc, tests/e2e/state_test.cc, tests/e2e/evict_test.cc and, through `kiln`,
// tests/python/cli/carry_test.py.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cpp/client.h"
#include "client/cpp/transport/stubs.h"
#include "kiln/v1/debug_service.grpc.pb.h"

namespace kiln::client {
namespace {

// One for each call: they are few, and a stub is small.
std::unique_ptr<v1::DebugService::Stub> StubOf(const Connection& connection) {
  return v1::DebugService::NewStub(connection.channel());
}

}  // namespace

absl::StatusOr<v1::TraceResponse> Client::Trace(const v1::TraceRequest& request) {
  v1::TraceResponse response;
  KILN_RETURN_IF_ERROR(
      Call(*connection_, StubOf(*connection_), &v1::DebugService::Stub::Trace, "Trace", request, &response));
  return response;
}

absl::StatusOr<v1::StateResponse> Client::State(const v1::StateRequest& request) {
  v1::StateResponse response;
  KILN_RETURN_IF_ERROR(
      Call(*connection_, StubOf(*connection_), &v1::DebugService::Stub::State, "State", request, &response));
  return response;
}

absl::StatusOr<v1::TimeResponse> Client::Time(const v1::TimeRequest& request) {
  v1::TimeResponse response;
  KILN_RETURN_IF_ERROR(
      Call(*connection_, StubOf(*connection_), &v1::DebugService::Stub::Time, "Time", request, &response));
  return response;
}

absl::StatusOr<v1::EvictResponse> Client::Evict(const std::string& graph_hash) {
  v1::EvictRequest request;
  request.set_graph_hash(graph_hash);
  v1::EvictResponse response;
  KILN_RETURN_IF_ERROR(
      Call(*connection_, StubOf(*connection_), &v1::DebugService::Stub::Evict, "Evict", request, &response));
  return response;
}

absl::StatusOr<v1::ListProgramsResponse> Client::ListPrograms() {
  v1::ListProgramsResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, StubOf(*connection_), &v1::DebugService::Stub::ListPrograms, "ListPrograms",
                            v1::ListProgramsRequest(), &response));
  return response;
}

absl::StatusOr<Program> Client::FindProgram(const std::string& graph_hash) {
  KILN_ASSIGN_OR_RETURN(v1::ListProgramsResponse listed, ListPrograms());
  const std::string& device = connection_->options().device;
  for (v1::ListProgramsResponse::Program& program : *listed.mutable_programs()) {
    if (program.graph_hash() != graph_hash || (!device.empty() && program.device() != device)) continue;
    v1::CompileResponse compiled;
    compiled.set_graph_hash(graph_hash);
    compiled.set_from_cache(true);
    compiled.set_compile_us(program.compile_us());
    compiled.set_kernels(program.kernels());
    *compiled.mutable_signature() = std::move(*program.mutable_signature());
    return Program(connection_, v1::Graph(), v1::CompileOptions(), std::move(compiled));
  }
  return MakeError(v1::NEED_GRAPH, absl::StrCat("the server has no program ", absl::BytesToHexString(graph_hash),
                                                device.empty() ? "" : " for ", device, " in memory; send its graph"));
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const v1::ExplainRequest& request) {
  v1::ExplainResponse response;
  KILN_RETURN_IF_ERROR(
      Call(*connection_, StubOf(*connection_), &v1::DebugService::Stub::Explain, "Explain", request, &response));
  return response;
}

absl::StatusOr<v1::ExportResponse> Client::ExportPrograms(bool all,
                                                          const std::function<bool(const std::string&)>& taken) {
  grpc::ClientContext context;
  connection_->Prepare(context);
  v1::ExportRequest request;
  request.set_all(all);
  const auto stream = StubOf(*connection_)->Export(&context, request);
  v1::ExportResponse response;
  bool wanted = true, ended = false;
  while (wanted && stream->Read(&response)) {
    connection_->Count("Export", 0, 0, response.ByteSizeLong());
    ended = response.chunk().empty();
    if (!ended) wanted = taken(response.chunk());
  }
  if (!wanted) context.TryCancel();
  const grpc::Status status = stream->Finish();
  connection_->Count("Export", 1, request.ByteSizeLong(), 0);
  KILN_RETURN_IF_ERROR(connection_->Convert(status));
  if (!ended) return absl::InternalError("the programs ended without their number");
  return response;
}

absl::StatusOr<v1::ImportResponse> Client::ImportPrograms(const std::function<std::string()>& more) {
  grpc::ClientContext context;
  connection_->Prepare(context);
  v1::ImportResponse response;
  const auto stream = StubOf(*connection_)->Import(&context, &response);
  uint64_t sent = 0;
  for (;;) {
    v1::ImportRequest request;
    request.set_chunk(more());
    if (request.chunk().empty()) break;
    sent += request.ByteSizeLong();
    if (!stream->Write(request)) break;  // its end says why
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  connection_->Count("Import", 1, sent, status.ok() ? response.ByteSizeLong() : 0);
  KILN_RETURN_IF_ERROR(connection_->Convert(status));
  return response;
}

absl::StatusOr<v1::TuneResponse::Done> Client::Tune(
    const v1::TuneRequest& request, const std::function<bool(const v1::TuneResponse::Candidate&)>& seen) {
  grpc::ClientContext context;
  connection_->Prepare(context);
  const auto stream = StubOf(*connection_)->Tune(&context, request);
  v1::TuneResponse response;
  v1::TuneResponse::Done done;
  bool ended = false, wanted = true;
  while (wanted && stream->Read(&response)) {
    connection_->Count("Tune", 0, 0, response.ByteSizeLong());
    if (response.has_done()) {
      done = response.done();
      ended = true;
    } else {
      wanted = seen(response.candidate());
    }
  }
  if (!wanted) context.TryCancel();
  const grpc::Status status = stream->Finish();
  connection_->Count("Tune", 1, request.ByteSizeLong(), 0);
  KILN_RETURN_IF_ERROR(connection_->Convert(status));
  if (!ended) return absl::InternalError("the search ended without its result");
  return done;
}

}  // namespace kiln::client
