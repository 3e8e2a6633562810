#include "server/admin/exposition.h"

#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/options/version.h"
#include "server/admin/families.h"
#include "server/admin/readings.h"
#include "server/build_id.h"
#include "server/engine/engine.h"
#include "server/models/repository.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

constexpr double kOne = 1, kNanos = 1e9;  // of the unit that is shown

OpenNames NamesOf(Engine& engine, const std::vector<ServedModelPtr>& models, const std::string& build) {
  OpenNames names;
  for (const RpcRow& row : RpcRows())
    names.methods.push_back(absl::StrCat(row.package, ".", row.service, "/", row.name));
  for (const auto& device : engine.devices()) {
    if (names.devices.size() == LabelOf<DeviceNumber>::kMost - 1) {
      names.devices.emplace_back("other");
      break;
    }
    names.devices.emplace_back(device->name());
  }
  names.tenants = {"", "other"};
  for (size_t number = 0; number < Accounts::kNumbered; ++number) {
    const Account* const account = engine.accounts().Numbered(number);
    if (account == nullptr) break;
    names.tenants.push_back(account->name());
  }
  names.versions = {compiler::kCompilerVersion};
  names.builds = {build};
  for (const ServedModelPtr& model : models) {
    names.models.push_back(model->name);
    names.model_versions.push_back(absl::StrCat(model->version));
  }
  return names;
}

}  // namespace

Exposition::Exposition(Engine* engine, const ModelRepository* models, std::function<bool()> ready)
    : engine_(engine), models_(models), ready_(std::move(ready)), build_(BuildId()) {}

std::vector<prometheus::MetricFamily> Exposition::Collect() const {
  const std::vector<ServedModelPtr> models = models_ == nullptr ? std::vector<ServedModelPtr>() : models_->Loaded("");
  const OpenNames names = NamesOf(*engine_, models, build_);
  const Metrics& metrics = engine_->metrics();
  std::vector<prometheus::MetricFamily> families;
#define COUNTER(member, unit, name, help, ...)                           \
  families.push_back({name, help, prometheus::MetricType::Counter, {}}); \
  AddCounter(metrics.member, unit, names, families.back());
#define HISTOGRAM(member, bounds, name, help, ...)                         \
  families.push_back({name, help, prometheus::MetricType::Histogram, {}}); \
  AddHistogram(metrics.member, names, families.back());
#define READ(Member, kind, name, help, ...)
#include "server/metrics/metrics.def"
#undef COUNTER
#undef HISTOGRAM
#undef READ
  AppendReadings({engine_, ready_(), models}, names, families);
  return families;
}

// prometheus-cpp writes 16 digits, one more than decimal fractions keep; whoever adds up series by their bounds needs
// the same text from every server, of other languages too.
std::string Exposition::Text() const {
  return absl::StrReplaceAll(prometheus::TextSerializer().Serialize(Collect()),
                             {{"le=\"0.0005999999999999999\"", "le=\"0.0006\""}});
}

}  // namespace kiln::server
