// DebugService.Trace: what ended lately, as far as the caller may see it.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "kiln/v1/debug_service.pb.h"
#include "server/services/rpcs.h"
#include "server/stream/command.h"
#include "server/trace/traces.h"

namespace kiln::server {
namespace {

constexpr double kMostLaunchSeconds = 60;

// A number of seconds that a client may have chosen to be anything.
absl::Status CheckSeconds(const char* field, double seconds) {
  if (std::isfinite(seconds) && seconds >= 0) return absl::OkStatus();
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(field);
  return MakeError(detail, absl::StrCat(field, " is ", seconds, "; give a number of seconds, not below 0"));
}

template <size_t kBytes>
std::string BytesOf(const std::array<uint8_t, kBytes>& id) {
  return std::string(reinterpret_cast<const char*>(id.data()), kBytes);
}

void FillPart(const char* name, const Interval& time, v1::TraceResponse::Part& part) {
  part.set_name(name);
  part.set_begin_ns(time.begin_ns);
  part.set_end_ns(time.end_ns);
}

void Fill(const CallRecord& record, const Accounts& accounts, v1::TraceResponse::Call& call) {
  call.set_trace_id(BytesOf(record.trace.trace_id));
  call.set_span_id(BytesOf(record.trace.span_id));
  const bool has_parent =
      std::any_of(record.trace.parent.begin(), record.trace.parent.end(), [](uint8_t byte) { return byte != 0; });
  if (has_parent) call.set_parent_span_id(BytesOf(record.trace.parent));
  call.set_method(std::string(MethodName(record.method)));
  if (record.command != 0) absl::StrAppend(call.mutable_method(), ".", CommandName(record.command));
  call.set_tenant(OwnerName(accounts, record.owner));
  call.set_device(std::string(record.parts.device.view()));
  call.set_status(record.status);
  call.set_begin_ns(record.time.begin_ns);
  call.set_end_ns(record.time.end_ns);
  for (size_t i = 0; i < kParts; ++i) {
    const Interval& time = record.parts.parts[i];
    if (time.end_ns == 0) continue;
    FillPart(kPartNames[i], time, *call.add_parts());
  }
}

void Fill(const RunOfDevice& record, const Accounts& accounts, v1::TraceResponse::Run& run) {
  run.set_device(std::string(record.device.view()));
  run.set_kernel(std::string(record.kernel.view()));
  run.set_tenant(OwnerName(accounts, record.owner));
  run.set_begin_ns(record.time.begin_ns);
  run.set_end_ns(record.time.end_ns);
  run.set_launches(record.launches);
}

}  // namespace

void rpc::DebugService::Trace(UnaryCall<v1::TraceRequest, v1::TraceResponse>& call) {
  const v1::TraceRequest& asked = call.request();
  absl::Status status = CheckSeconds("seconds", asked.seconds());
  if (status.ok()) status = CheckSeconds("launch_seconds", asked.launch_seconds());
  const bool sees_all = call.tenant() == nullptr || call.tenant()->Has(Right::kAdmin);
  // It slows the runs of all.
  if (status.ok() && asked.launch_seconds() > 0 && !sees_all) status = WithoutRight(*call.tenant(), Right::kAdmin);
  if (!status.ok()) return call.Reply(std::move(status));

  Engine& engine = call.env().engine;
  const absl::Time now = SteadyNow();
  if (asked.launch_seconds() > 0) {
    engine.traces().KeepLaunches(now + absl::Seconds(std::min(asked.launch_seconds(), kMostLaunchSeconds)));
  }
  Traces::Wanted wanted;
  if (asked.seconds() > 0) wanted.since_ns = absl::ToUnixNanos(now - absl::Seconds(asked.seconds()));
  if (!sees_all) {
    wanted.owner = OwnerNumber(call.control().account);
    // Before that, its name was another's.
    const absl::Time since = engine.sessions().Since(call.tenant_name());
    if (since > absl::InfinitePast()) wanted.begun_since_ns = absl::ToUnixNanos(since);
  }
  v1::TraceResponse& answer = call.response();
  const std::vector<CallRecord> calls = engine.traces().Calls(wanted);
  const absl::flat_hash_map<SpanId, CompileStages> compiled = engine.traces().Stages();
  for (const CallRecord& record : calls) {
    v1::TraceResponse::Call& shown = *answer.add_calls();
    Fill(record, engine.accounts(), shown);
    const auto found = compiled.find(record.trace.span_id);
    if (found == compiled.end()) continue;
    for (const StageTime& stage : found->second.all()) {
      FillPart(NameOf(stage.stage), stage.time, *shown.add_stages());
      shown.mutable_stages(shown.stages_size() - 1)->set_failed(stage.failed);
    }
  }
  for (const RunOfDevice& record : engine.traces().Runs(wanted)) Fill(record, engine.accounts(), *answer.add_runs());
  call.Reply(absl::OkStatus());
}

}  // namespace kiln::server
