#include "server/admin/api.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "kiln/v1/debug_service.pb.h"
#include "server/admin/explanations.h"
#include "server/engine/engine.h"
#include "server/services/rpcs.h"
#include "server/state/call_row.h"
#include "server/state/state.h"
#include "server/stream/command.h"

namespace kiln::server {
namespace {

constexpr uint32_t kRows = 100;  // unless more is asked for
constexpr size_t kCalls = 100;
// Of one stage's text. A browser that lays out more of it is slow.
constexpr size_t kMaxText = size_t{1} << 20;

constexpr char kJson[] = "application/json";

// All fields, so that what reads it need not know which are zero.
AdminAnswer JsonOf(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  AdminAnswer answer = {200, kJson, "", ""};
  const auto status = google::protobuf::util::MessageToJsonString(message, &answer.body, options);
  // A string of ours that is not UTF-8.
  if (!status.ok()) return {500, kJson, "{\"error\": \"the answer cannot be written as JSON\"}", ""};
  return answer;
}

AdminAnswer Failure(int status, absl::string_view text) {
  google::protobuf::Struct error;
  (*error.mutable_fields())["error"].set_string_value(std::string(text));
  AdminAnswer answer = JsonOf(error);
  answer.status = status;
  return answer;
}

uint32_t NumberOf(const AdminRequest& request, absl::string_view name, uint32_t otherwise) {
  uint32_t number = 0;
  return absl::SimpleAtoi(request.Get(name), &number) ? number : otherwise;
}

AdminAnswer State(const ServerState& state, const AdminRequest& request) {
  v1::StateRequest asked;
  asked.set_max_rows(NumberOf(request, "rows", kRows));
  asked.set_history_seconds(NumberOf(request, "history", 0));
  return JsonOf(state.Collect(asked, {}));
}

AdminAnswer Calls(Engine& engine) {
  std::vector<CallRecord> calls = engine.traces().Calls({});
  v1::StateResponse answer;
  const absl::Time now = SteadyNow();
  for (size_t i = 0; i < std::min(calls.size(), kCalls); ++i) {
    const CallRecord& record = calls[calls.size() - 1 - i];
    std::string method(MethodName(record.method));
    if (record.command != 0) absl::StrAppend(&method, ".", CommandName(record.command));
    FillCall(record, method, OwnerName(engine.accounts(), record.owner), now, *answer.add_slow_calls());
  }
  return JsonOf(answer);
}

AdminAnswer Cache(const Engine& engine) {
  v1::ListProgramsResponse answer;
  const ProgramStats stats = engine.program_stats();
  answer.set_hits(stats.memory.hits);
  answer.set_misses(stats.memory.misses);
  answer.set_compiles(stats.compiles);
  if (const auto disk = engine.disk_stats(); disk.has_value()) {
    v1::ListProgramsResponse::Disk& message = *answer.mutable_disk();
    message.set_hits(disk->hits);
    message.set_misses(disk->misses);
    message.set_rejects(disk->rejects);
    message.set_stores(disk->stores);
    message.set_store_failures(disk->store_failures);
  }
  return JsonOf(answer);
}

// Null if it is not in memory.
ProgramStore::Program Named(Engine& engine, const AdminRequest& request) {
  const std::string hash = request.Get("hash"), device = request.Get("device"), tenant = request.Get("tenant");
  const TrustDomain domain = tenant.empty() ? TrustDomain() : engine.sessions().DomainOf(tenant);
  for (ProgramStore::Program& program : engine.AllPrograms()) {
    if (program->domain == domain && program->device->name() == device &&
        absl::BytesToHexString(program->graph_hash.view()) == hash) {
      return std::move(program);
    }
  }
  return nullptr;
}

v1::ExplainResponse::Stage RowOf(const ExplainedStage& stage) {
  v1::ExplainResponse::Stage row;
  row.set_name(stage.name);
  row.set_micros(stage.micros);
  row.set_nodes(static_cast<uint32_t>(stage.nodes));
  return row;
}

AdminAnswer Stage(const Explanation& explanation, const std::string& name) {
  for (const ExplainedStage& stage : explanation.stages) {
    if (stage.name != name) continue;
    v1::ExplainResponse::Stage row = RowOf(stage);
    row.set_text(stage.text.size() <= kMaxText
                     ? stage.text
                     : absl::StrCat(stage.text.substr(0, stage.text.rfind('\n', kMaxText)), "\n# ",
                                    stage.text.size() - kMaxText, " bytes more: kiln explain has them\n"));
    return JsonOf(row);
  }
  return Failure(404, "there is no such stage");
}

AdminAnswer Program(Engine& engine, Explanations& explanations, const AdminRequest& request) {
  const ProgramStore::Program program = Named(engine, request);
  if (program == nullptr) return Failure(404, "there is no such program in memory");
  const auto shown = explanations.Get(program);
  if (!shown.ok()) return Failure(absl::IsUnavailable(shown.status()) ? 429 : 400, shown.status().message());
  if (*shown == nullptr) return {202, kJson, "{}", ""};
  if (const std::string stage = request.Get("stage"); !stage.empty()) return Stage(**shown, stage);
  v1::ExplainResponse answer;
  for (const ExplainedStage& stage : (*shown)->stages) *answer.add_stages() = RowOf(stage);
  *answer.mutable_signature() = (*shown)->executable.signature();
  *answer.mutable_cost() = (*shown)->executable.cost();
  *answer.mutable_kernels() = (*shown)->executable.kernels();
  return JsonOf(answer);
}

}  // namespace

std::vector<AdminPage> ApiPages(Engine* engine, const ServerState* state, bool shows_programs) {
  std::vector<AdminPage> pages;
  pages.push_back({"/api/state", [state](const AdminRequest& request) { return State(*state, request); }});
  pages.push_back({"/api/calls", [engine](const AdminRequest&) { return Calls(*engine); }});
  pages.push_back({"/api/cache", [engine](const AdminRequest&) { return Cache(*engine); }});
  if (!shows_programs) {
    pages.push_back({"/api/program", [](const AdminRequest&) {
                       return Failure(403, "what programs compute is shown where --admin_listen is a loopback address");
                     }});
    return pages;
  }
  pages.push_back(
      {"/api/program", [engine, explanations = std::make_shared<Explanations>(engine)](const AdminRequest& request) {
         return Program(*engine, *explanations, request);
       }});
  return pages;
}

}  // namespace kiln::server
