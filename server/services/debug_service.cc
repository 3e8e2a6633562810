// DebugService: for people that look inside. Tune is in tune_stream.cc.
#include <string>
#include <utility>

#include "kiln/v1/debug_service.pb.h"
#include "server/messages/convert.h"
#include "server/services/rpcs.h"
#include "server/state/state.h"

namespace kiln::server {
namespace {

void FillExplanation(Explanation& explanation, v1::ExplainResponse& answer) {
  for (ExplainedStage& stage : explanation.stages) {
    v1::ExplainResponse::Stage* message = answer.add_stages();
    message->set_name(std::move(stage.name));
    message->set_text(std::move(stage.text));
    message->set_micros(stage.micros);
    message->set_nodes(static_cast<uint32_t>(stage.nodes));
  }
  answer.set_graph_hash(std::string(explanation.graph_hash.view()));
  answer.mutable_signature()->Swap(explanation.executable.mutable_signature());
  answer.mutable_cost()->Swap(explanation.executable.mutable_cost());
  answer.mutable_kernels()->Swap(explanation.executable.mutable_kernels());
}

}  // namespace

void rpc::DebugService::Explain(UnaryCall<v1::ExplainRequest, v1::ExplainResponse>& call) {
  const v1::ExplainRequest& message = call.request();
  ExplainRequest asked;
  asked.graph_hash = message.graph_hash();
  if (message.has_graph()) asked.graph = &message.graph();
  asked.device = message.device();
  asked.caller = call.session();
  asked.options = ToOptions(message.options());
  asked.stages.assign(message.stages().begin(), message.stages().end());
  asked.source = message.source();
  call.env().engine.Explain(std::move(asked), call.control(), [&call](absl::StatusOr<Explanation> explanation) {
    if (!explanation.ok()) return call.Reply(explanation.status());
    FillExplanation(*explanation, call.response());
    call.Reply(absl::OkStatus());
  });
}

void rpc::DebugService::ListPrograms(UnaryCall<v1::ListProgramsRequest, v1::ListProgramsResponse>& call) {
  v1::ListProgramsResponse& answer = call.response();
  for (const ProgramStore::Program& stored : call.env().engine.ListPrograms(call.session().get())) {
    v1::ListProgramsResponse::Program* program = answer.add_programs();
    program->set_graph_hash(std::string(stored->graph_hash.view()));
    program->set_device(std::string(stored->device->name()));
    program->set_hits(stored->hits.load(std::memory_order_relaxed));
    program->set_compile_us(stored->compile_us);
    program->set_bytes(stored->bytes);
    program->set_kernels(stored->kernels);
    *program->mutable_signature() = stored->signature();
  }
  // What all tenants did is no tenant's to know.
  if (call.tenant() != nullptr && !call.tenant()->Has(Right::kAdmin)) return call.Reply(absl::OkStatus());
  const ProgramStats stats = call.env().engine.program_stats();
  answer.set_hits(stats.memory.hits);
  answer.set_misses(stats.memory.misses);
  answer.set_compiles(stats.compiles);
  if (const auto disk = call.env().engine.disk_stats(); disk.has_value()) {
    v1::ListProgramsResponse::Disk& message = *answer.mutable_disk();
    message.set_hits(disk->hits);
    message.set_misses(disk->misses);
    message.set_rejects(disk->rejects);
    message.set_stores(disk->stores);
    message.set_store_failures(disk->store_failures);
  }
  call.Reply(absl::OkStatus());
}

void rpc::DebugService::Evict(UnaryCall<v1::EvictRequest, v1::EvictResponse>& call) {
  call.env().engine.Evict(call.request().graph_hash(), call.session(), call.control(),
                          [&call](absl::StatusOr<ProgramStore::Evicted> evicted) {
                            if (!evicted.ok()) return call.Reply(evicted.status());
                            call.response().set_programs(evicted->programs);
                            call.response().set_entries(evicted->entries);
                            call.Reply(absl::OkStatus());
                          });
}

void rpc::DebugService::State(UnaryCall<v1::StateRequest, v1::StateResponse>& call) {
  StateViewer viewer;
  if (const TenantPtr& tenant = call.tenant(); tenant != nullptr) {
    viewer.tenant = tenant->name;
    if (!tenant->Has(Right::kAdmin)) viewer.account = call.control().account;
  }
  call.response() = call.env().state->Collect(call.request(), viewer);
  call.Reply(absl::OkStatus());
}

}  // namespace kiln::server
