#include "client/load/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/text/table.h"

namespace kiln::load {
namespace {

struct Percentile {
  const char* name;
  double part;
};
constexpr Percentile kPercentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};

double Micros(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

void AddPercentiles(const Histogram& times, cli::Row& row) {
  for (const Percentile& each : kPercentiles) {
    row.push_back(times.count() == 0 ? "-" : cli::MicrosText(Micros(times.Quantile(each.part))));
  }
}

std::string PerSecond(double rate) { return absl::StrFormat("%.4g", rate); }

nlohmann::json Json(const Histogram& times) {
  nlohmann::json json = {{"count", times.count()}, {"mean", times.mean() / 1e3}};
  for (const Percentile& each : kPercentiles) json[each.name] = Micros(times.Quantile(each.part));
  nlohmann::json& buckets = json["buckets"] = nlohmann::json::array();
  times.ForEach([&](uint64_t end, uint64_t count) { buckets.push_back({Micros(end), count}); });
  return json;
}

nlohmann::json Json(const ClassResult& result) {
  nlohmann::json failures = nlohmann::json::object();
  for (const auto& [kind, of] : result.failures) failures[kind] = {{"count", of.count}, {"example", of.example}};
  return {{"name", result.name},
          {"rate", result.rate},
          {"seconds", result.seconds},
          {"due", result.due},
          {"sent", result.sent},
          {"held_back", result.held_back},
          {"ok", result.ok},
          {"in_deadline", result.in_deadline},
          {"goodput", result.goodput()},
          {"failures", std::move(failures)},
          {"answered_us", Json(result.answered)},
          {"failed_us", Json(result.failed)},
          {"sent_late_us", Json(result.sent_late)}};
}

}  // namespace

double StepResult::goodput() const {
  double sum = 0;
  for (const ClassResult& each : classes) sum += each.goodput();
  return sum;
}

Histogram StepResult::Answered() const {
  Histogram all;
  for (const ClassResult& each : classes) all.Merge(each.answered);
  return all;
}

Histogram StepResult::Latencies() const {
  Histogram all;
  for (const ClassResult& each : classes) all.Merge(each.Latencies());
  return all;
}

std::string StepText(const StepResult& result) {
  std::vector<cli::Row> rows = {
      {"class", "due/s", "requests", "goodput/s", "p50", "p90", "p99", "p99.9", "max", "held back", "sent late p99"}};
  std::string failures;
  for (const ClassResult& each : result.classes) {
    cli::Row& row = rows.emplace_back();
    row = {each.name, PerSecond(each.rate), absl::StrCat(each.ok), PerSecond(each.goodput())};
    AddPercentiles(each.answered, row);
    row.push_back(absl::StrCat(each.held_back));
    row.push_back(each.sent_late.count() == 0 ? "-" : cli::MicrosText(Micros(each.sent_late.Quantile(0.99))));
    if (each.failures.empty()) continue;
    rows.push_back({"  failed", "", absl::StrCat(each.failed.count()), ""});
    AddPercentiles(each.failed, rows.back());
    for (const auto& [kind, of] : each.failures) {
      absl::StrAppend(&failures, each.name, ": ", of.count, " ", kind, ": ", of.example, "\n");
    }
  }
  return absl::StrFormat("%s requests/s for %s, after %s; seed %d\n", PerSecond(result.rate),
                         absl::FormatDuration(result.step.length), absl::FormatDuration(result.step.warm_up),
                         result.step.seed) +
         cli::TableText(rows) + failures;
}

std::string CurveText(const std::vector<StepResult>& results) {
  if (results.size() < 2) return "";
  std::vector<cli::Row> rows = {{"offered/s", "ok/s", "goodput/s", "of offered", "p50", "p90", "p99", "p99.9", "max"}};
  for (const StepResult& result : results) {
    double ok = 0;
    for (const ClassResult& each : result.classes) {
      if (each.seconds > 0) ok += static_cast<double>(each.ok) / each.seconds;
    }
    rows.push_back({PerSecond(result.rate), PerSecond(ok), PerSecond(result.goodput()),
                    absl::StrFormat("%.1f %%", 100 * result.goodput() / result.rate)});
    AddPercentiles(result.Answered(), rows.back());
  }
  return cli::TableText(rows);
}

std::string ToJson(const std::vector<StepResult>& results) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StepResult& result : results) {
    nlohmann::json classes = nlohmann::json::array();
    for (const ClassResult& each : result.classes) classes.push_back(Json(each));
    steps.push_back({{"rate", result.rate},
                     {"goodput", result.goodput()},
                     {"seconds", absl::ToDoubleSeconds(result.step.length)},
                     {"warm_up_seconds", absl::ToDoubleSeconds(result.step.warm_up)},
                     {"seed", result.step.seed},
                     {"classes", std::move(classes)}});
  }
  return nlohmann::json({{"steps", std::move(steps)}}).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

}  // namespace kiln::load
