// GRPCInferenceService's RPCs for settings: everybody may read them; who sets them needs the right to administer.
//
// Tested by tests/e2e/serving/settings_test.py.
#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/logs/logs.h"
#include "server/messages/not_implemented.h"
#include "server/services/inference/inference.h"
#include "server/services/rpcs.h"
#include "server/services/settings/settings.h"

namespace kiln::server {
namespace {

// Who changes the server for others, and who would have, is for the audit log.
template <typename Call>
absl::Status MaySet(const Call& call, absl::string_view rpc) {
  if (call.tenant() == nullptr || call.tenant()->Has(Right::kAdmin)) return absl::OkStatus();
  absl::Status refused = WithoutRight(*call.tenant(), Right::kAdmin);
  if (AuditLog* const audit = call.env().logs->audit.get(); audit != nullptr)
    audit->Refused(call.tenant_name(), call.context().peer(), rpc, refused, SteadyNow());
  return refused;
}

template <typename Call>
void Audit(const Call& call, absl::string_view rpc) {
  if (AuditLog* const audit = call.env().logs->audit.get(); audit != nullptr)
    audit->Called(call.tenant_name(), call.context().peer(), rpc, "OK", SteadyNow());
}

constexpr char kLogSettings[] = "GRPCInferenceService.LogSettings",
               kTraceSetting[] = "GRPCInferenceService.TraceSetting";

}  // namespace

void rpc::GRPCInferenceService::LogSettings(
    UnaryCall<inference::LogSettingsRequest, inference::LogSettingsResponse>& call) {
  spdlog::logger& log = call.env().log;
  if (!call.request().settings().empty()) {
    if (absl::Status may = MaySet(call, kLogSettings); !may.ok()) return call.Reply(std::move(may));
    const auto before = log.level();
    const auto level = LevelOf(call.request(), before);
    if (!level.ok()) return call.Reply(level.status());
    // Told while it can be.
    log.set_level(std::min(before, *level));
    log.info("event=log_level level={}", spdlog::level::to_string_view(*level));
    log.set_level(*level);
    Audit(call, kLogSettings);
  }
  FillLogSettings(log.level(), call.env().logs->format, call.response());
  call.Reply(absl::OkStatus());
}

void rpc::GRPCInferenceService::TraceSetting(
    UnaryCall<inference::TraceSettingRequest, inference::TraceSettingResponse>& call) {
  const inference::TraceSettingRequest& asked = call.request();
  Traces& traces = call.env().engine.traces();
  // A model's are the server's.
  if (!asked.model_name().empty()) {
    const ModelCaller caller = {call.env(), call.tenant(), call.session(), call.control(), call.context()};
    if (auto model = FindModel(caller, asked.model_name(), ""); !model.ok()) return call.Reply(model.status());
  }
  if (!asked.settings().empty()) {
    absl::Status may = MaySet(call, kTraceSetting);
    if (may.ok() && !asked.model_name().empty()) may = NotImplemented("TraceSetting.model_name beside settings");
    if (may.ok() && !traces.exports()) {
      may = MakeError(v1::NOT_IMPLEMENTED,
                      "no traces are exported, so that none are to be chosen; kilnd "
                      "--otlp_endpoint names a collector (docs/tracing.md)");
    }
    if (!may.ok()) return call.Reply(std::move(may));
    const auto sampling = SamplingOf(asked, traces.sampling(), traces.first_sampling());
    if (!sampling.ok()) return call.Reply(sampling.status());
    traces.SetSampling(*sampling);
    call.env().log.info("event=trace_sampling on={} ratio={}", sampling->on, sampling->ratio);
    Audit(call, kTraceSetting);
  }
  FillTraceSettings(traces.sampling(), traces.exports(), call.response());
  call.Reply(absl::OkStatus());
}

}  // namespace kiln::server
