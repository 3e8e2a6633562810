#include "server/otlp/exporter.h"

#include <pthread.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "base/clock.h"

namespace kiln::server {
namespace {

// How often what there is goes out, and how long an answer may take.
constexpr absl::Duration kEvery = absl::Seconds(1), kTimeout = absl::Seconds(10);
// For all that is left at the end.
constexpr absl::Duration kAtTheEnd = absl::Seconds(1);
// Of one request: then it is dropped, so that what comes after it has its turn.
constexpr int kTries = 5;

}  // namespace

absl::Duration WaitAfter(int failures, double part, absl::Duration asked) {
  constexpr absl::Duration kFirst = absl::Seconds(1), kMost = absl::Seconds(30);
  const absl::Duration all = std::min(kFirst * (1 << std::min(failures - 1, 10)), kMost);
  return std::max(all * (0.5 + part / 2), asked);
}

OtlpExporter::OtlpExporter(const OtlpSettings& settings, std::shared_ptr<Backlog> backlog, SpanNames names,
                           Metrics* metrics, std::shared_ptr<spdlog::logger> log)
    : settings_(settings),
      backlog_(std::move(backlog)),
      names_(std::move(names)),
      metrics_(metrics),
      log_(std::move(log)),
      sender_(settings),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "kiln-otlp");
}

OtlpExporter::~OtlpExporter() {
  stopping_.store(true, std::memory_order_relaxed);
  stopped_.Notify();
  backlog_->Wake();
  thread_.join();
}

void OtlpExporter::Run() {
  while (!stopped_.HasBeenNotified()) {
    backlog_->Wait(kEvery);
    while (!stopped_.HasBeenNotified()) {
      const Backlog::Taken taken = backlog_->Take();
      if (taken.calls.empty()) break;
      Export(taken);
    }
  }
  const absl::Time end = SteadyNow() + kAtTheEnd;
  for (;;) {
    const Backlog::Taken taken = backlog_->Take();
    const absl::Duration left = end - SteadyNow();
    if (taken.calls.empty() || left <= absl::Milliseconds(1)) return;
    Count(taken, Try(BodyOf(taken), left, nullptr));
  }
}

void OtlpExporter::Export(const Backlog::Taken& taken) {
  const std::string body = BodyOf(taken);
  Sent sent;
  for (int tries = 0; tries < kTries; ++tries) {
    sent = Try(body, kTimeout, &stopping_);
    if (sent.as != Sent::As::kTryAgain) break;
    const absl::Duration wait = WaitAfter(failures_, absl::Uniform(random_, 0.0, 1.0), sent.retry_after);
    if (!stopped_.WaitForNotificationWithTimeout(wait)) continue;
    sent = Try(body, kAtTheEnd, nullptr);
    break;
  }
  Count(taken, sent);
}

Sent OtlpExporter::Try(const std::string& body, absl::Duration most, const std::atomic<bool>* stop) {
  Sent sent = sender_.Send(body, most, stop);
  const bool taken = sent.as == Sent::As::kTaken;
  if (!taken && failures_ == 0) log_->warn("event=otlp_failed reason=\"{}\"", absl::CEscape(sent.why));
  if (taken && failures_ != 0) log_->info("event=otlp_works_again failures={}", failures_);
  if (sent.rejected_spans > 0) {
    log_->warn("event=otlp_rejected spans={} reason=\"{}\"", sent.rejected_spans, absl::CEscape(sent.why));
  }
  failures_ = taken ? 0 : failures_ + 1;
  return sent;
}

void OtlpExporter::Count(const Backlog::Taken& taken, const Sent& sent) {
  ExportEnd end = ExportEnd::kGaveUp;
  if (sent.as == Sent::As::kTaken) end = ExportEnd::kSent;
  if (sent.as == Sent::As::kRefused) end = ExportEnd::kRefused;
  metrics_->otlp_records.Add(taken.records(), end);
}

std::string OtlpExporter::BodyOf(const Backlog::Taken& taken) const {
  absl::flat_hash_map<uint64_t, std::vector<RunOfDevice>> runs;
  for (const RunOfDevice& run : taken.runs) runs[run.call].push_back(run);
  v1::OtlpTraces traces;
  v1::OtlpTraces::ResourceSpans& all = *traces.add_resource_spans();
  for (const auto& [key, value] : settings_.resource) {
    v1::OtlpTraces::KeyValue& attribute = *all.mutable_resource()->add_attributes();
    attribute.set_key(key);
    attribute.mutable_value()->set_string_value(value);
  }
  v1::OtlpTraces::ScopeSpans& spans = *all.add_scope_spans();
  spans.mutable_scope()->set_name("kiln.server.trace");
  for (const CallRecord& call : taken.calls) {
    const auto compiled = taken.stages.find(call.trace.number());
    AppendSpans(call, compiled == taken.stages.end() ? nullptr : &compiled->second, runs[call.trace.number()], names_,
                spans);
  }
  return traces.SerializeAsString();
}

}  // namespace kiln::server
