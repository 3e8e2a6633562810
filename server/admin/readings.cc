#include "server/admin/readings.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "runtime/hal/guarantees.h"
#include "server/admin/families.h"
#include "server/admin/process_stats.h"
#include "server/engine/engine.h"
#include "server/engine/memory/tenant_rules.h"

namespace kiln::server {
namespace {

constexpr prometheus::MetricType kGauge = prometheus::MetricType::Gauge, kCounter = prometheus::MetricType::Counter;

// One scrape: what several rows are taken from is read once.
struct Scrape {
  Engine& engine;
  bool ready;
  const std::vector<ServedModelPtr>& served;
  std::vector<ModelCounts> models;  // of all callers
  ProcessStats process = ReadProcessStats();
};

std::vector<ModelCounts> CountsOf(const std::vector<ServedModelPtr>& models) {
  std::vector<ModelCounts> counts;
  for (const ServedModelPtr& model : models) counts.push_back(model->counters.all());
  return counts;
}

template <typename... Labels>
constexpr bool kOfModels = (std::is_same_v<Labels, ModelNumber> || ...);

// The samples of one row.
template <typename... Labels>
class Samples {
 public:
  Samples(const OpenNames& names, prometheus::MetricFamily& family) : names_(names), family_(family) {}

  void Set(double value, Labels... labels) {
    auto values = ValuesOf<Labels...>(Series<Labels...>::Of(labels...), names_);
    if (!values.has_value()) return;
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    metric.label = *std::move(values);
    (family_.type == kCounter ? metric.counter.value : metric.gauge.value) = value;
  }

 private:
  const OpenNames& names_;
  prometheus::MetricFamily& family_;
};

// Of those that have a name of their own.
template <typename Read>
void ForEachDevice(const Scrape& scrape, const TenantRules* rules, Read read) {
  const auto devices = scrape.engine.devices(rules);
  const size_t named = std::min(devices.size(), LabelOf<DeviceNumber>::kMost - 1);
  for (size_t number = 0; number < named; ++number) read(DeviceNumber{number}, *devices[number]);
}

template <typename Read>
void ForEachDevice(const Scrape& scrape, Read read) {
  ForEachDevice(scrape, nullptr, read);
}

template <typename Read>
void ForEachAccount(const Scrape& scrape, Read read) {
  for (size_t number = 0; number < Accounts::kNumbered; ++number) {
    const Account* const account = scrape.engine.accounts().Numbered(number);
    if (account == nullptr) return;
    read(*account);
  }
}

template <typename Read>
void ForEachQuota(const Scrape& scrape, Read read) {
  ForEachAccount(scrape, [&](const Account& account) {
    for (size_t quota = 0; quota < kQuotas; ++quota) read(account, static_cast<Quota>(quota));
  });
}

void ReadMemory(const Scrape& scrape, Samples<DeviceNumber, MemoryKind>& samples) {
  ForEachDevice(scrape, [&](DeviceNumber number, const runtime::hal::Device& device) {
    const runtime::hal::AllocatorStats memory = device.stats().memory;
    samples.Set(static_cast<double>(memory.in_use_bytes), number, MemoryKind::kInUse);
    samples.Set(static_cast<double>(memory.cached_bytes), number, MemoryKind::kCached);
    samples.Set(static_cast<double>(memory.peak_bytes), number, MemoryKind::kPeak);
    samples.Set(static_cast<double>(memory.limit_bytes), number, MemoryKind::kLimit);
  });
}

// A tenant whose programs run apart has devices of its own, which stand in the places of the server's.
void ReadTenantMemory(const Scrape& scrape, Samples<DeviceNumber, TenantNumber, TenantMemoryKind>& samples) {
  ForEachAccount(scrape, [&](const Account& account) {
    const TenantRules& rules = scrape.engine.rules().Of(account.name())->get();
    ForEachDevice(scrape, &rules, [&](DeviceNumber number, runtime::hal::Device& device) {
      const runtime::hal::Guarantees::Part part = device.allocator().guarantees().Of(&account);
      if (part.used + part.scratch + part.guaranteed == 0) return;
      const auto set = [&](uint64_t bytes, TenantMemoryKind kind) {
        samples.Set(static_cast<double>(bytes), number, TenantOf(&account), kind);
      };
      set(part.used, TenantMemoryKind::kInUse);
      set(part.scratch, TenantMemoryKind::kScratch);
      if (part.guaranteed != 0) set(part.guaranteed, TenantMemoryKind::kGuaranteed);
    });
  });
}

void ReadRunPauses(const Scrape& scrape, Samples<DeviceNumber>& samples) {
  ForEachDevice(scrape, [&](DeviceNumber number, const runtime::hal::Device& device) {
    samples.Set(static_cast<double>(scrape.engine.turns().pauses(device)), number);
  });
}

void ReadPredictedWait(const Scrape& scrape, Samples<DeviceNumber>& samples) {
  ForEachDevice(scrape, [&](DeviceNumber number, const runtime::hal::Device& device) {
    samples.Set(scrape.engine.turns().LongestWait(device), number);
  });
}

void ReadShareRatio(const Scrape& scrape, Samples<DeviceNumber, TenantNumber>& samples) {
  ForEachDevice(scrape, [&](DeviceNumber number, const runtime::hal::Device& device) {
    scrape.engine.turns().ReadShares(
        device, [&](size_t tenant, double ratio) { samples.Set(ratio, number, TenantNumber{tenant}); });
  });
}

void ReadDeviceUp(const Scrape& scrape, Samples<DeviceNumber>& samples) {
  ForEachDevice(scrape, [&](DeviceNumber number, const runtime::hal::Device& device) {
    samples.Set(device.health().ok() ? 1 : 0, number);
  });
}

void ReadQueueDepth(const Scrape& scrape, Samples<DeviceNumber>& samples) {
  ForEachDevice(scrape, [&](DeviceNumber number, const runtime::hal::Device& device) {
    samples.Set(static_cast<double>(device.stats().queue_depth + scrape.engine.turns().waiting(device)), number);
  });
}

void ReadQuotaUsed(const Scrape& scrape, Samples<TenantNumber, Quota>& samples) {
  ForEachQuota(scrape, [&](const Account& account, Quota quota) {
    samples.Set(static_cast<double>(account.used(quota)), TenantOf(&account), quota);
  });
}

void ReadQuotaLimit(const Scrape& scrape, Samples<TenantNumber, Quota>& samples) {
  ForEachQuota(scrape, [&](const Account& account, Quota quota) {
    const uint64_t limit = account.limit(quota);
    if (limit != 0) samples.Set(static_cast<double>(limit), TenantOf(&account), quota);
  });
}

void ReadSessions(const Scrape& scrape, Samples<>& samples) {
  samples.Set(static_cast<double>(scrape.engine.sessions().size()));
}
void ReadHandles(const Scrape& scrape, Samples<>& samples) {
  samples.Set(static_cast<double>(scrape.engine.buffers().table().size()));
}
// Triton's, whose dashboards and autoscalers go by them: all nanoseconds here are microseconds there.
using ModelSamples = Samples<ModelNumber, ModelVersion>;
void ReadModels(const Scrape& scrape, ModelSamples& samples, uint64_t ModelCounts::* counted, uint64_t of_one = 1) {
  const size_t named = std::min(scrape.models.size(), LabelOf<ModelNumber>::kMost);
  for (size_t number = 0; number < named; ++number) {
    samples.Set(static_cast<double>(scrape.models[number].*counted / of_one), {number}, {number});
  }
}
void ReadMicros(const Scrape& scrape, ModelSamples& samples, uint64_t ModelCounts::* nanos) {
  ReadModels(scrape, samples, nanos, 1000);
}
void ReadInferSuccess(const Scrape& scrape, ModelSamples& samples) {
  ReadModels(scrape, samples, &ModelCounts::succeeded);
}
void ReadInferFailure(const Scrape& scrape, ModelSamples& samples) {
  ReadModels(scrape, samples, &ModelCounts::failed);
}
void ReadInferCount(const Scrape& scrape, ModelSamples& samples) {
  ReadModels(scrape, samples, &ModelCounts::succeeded);
}
void ReadInferExecCount(const Scrape& scrape, ModelSamples& samples) {
  ReadModels(scrape, samples, &ModelCounts::runs);
}
void ReadInferDuration(const Scrape& scrape, ModelSamples& samples) {
  ReadMicros(scrape, samples, &ModelCounts::success_ns);
}
void ReadInferQueue(const Scrape& scrape, ModelSamples& samples) {
  ReadMicros(scrape, samples, &ModelCounts::queue_ns);
}
void ReadInferInput(const Scrape& scrape, ModelSamples& samples) {
  ReadMicros(scrape, samples, &ModelCounts::input_ns);
}
void ReadInferCompute(const Scrape& scrape, ModelSamples& samples) {
  ReadMicros(scrape, samples, &ModelCounts::infer_ns);
}
void ReadInferOutput(const Scrape& scrape, ModelSamples& samples) {
  ReadMicros(scrape, samples, &ModelCounts::output_ns);
}

void ReadModelMemory(const Scrape& scrape, ModelSamples& samples) {
  const size_t named = std::min(scrape.served.size(), LabelOf<ModelNumber>::kMost);
  for (size_t number = 0; number < named; ++number)
    samples.Set(static_cast<double>(scrape.served[number]->weight_bytes()), {number}, {number});
}

void ReadReady(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.ready ? 1 : 0); }
void ReadBuildInfo(const Scrape&, Samples<Version, Build>& samples) { samples.Set(1, {0}, {0}); }
void ReadProcessCpu(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.process.cpu_seconds); }
void ReadProcessResident(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.process.resident_bytes); }
void ReadProcessVirtual(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.process.virtual_bytes); }
void ReadProcessOpenFds(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.process.open_fds); }
void ReadProcessMaxFds(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.process.max_fds); }
void ReadProcessThreads(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.process.threads); }
void ReadProcessStart(const Scrape& scrape, Samples<>& samples) { samples.Set(scrape.process.start_seconds); }

prometheus::MetricFamily& Family(const char* name, const char* help, prometheus::MetricType type,
                                 std::vector<prometheus::MetricFamily>& families) {
  families.push_back({name, help, type, {}});
  return families.back();
}

}  // namespace

void AppendReadings(const Sources& sources, const OpenNames& names, std::vector<prometheus::MetricFamily>& families) {
  const Scrape scrape = {*sources.engine, sources.ready, sources.models, CountsOf(sources.models)};
#define COUNTER(member, unit, name, help, ...)
#define HISTOGRAM(member, bounds, name, help, ...)
#define READ(Member, kind, name, help, ...)                                  \
  if (!kOfModels<__VA_ARGS__> || !sources.models.empty()) {                  \
    Samples<__VA_ARGS__> samples(names, Family(name, help, kind, families)); \
    Read##Member(scrape, samples);                                           \
  }
#include "server/metrics/metrics.def"
#undef COUNTER
#undef HISTOGRAM
#undef READ
}

}  // namespace kiln::server
