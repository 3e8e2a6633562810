// From rows of server/metrics/metrics.def to what prometheus-cpp writes as text.
#ifndef KILN_SERVER_ADMIN_FAMILIES_H_
#define KILN_SERVER_ADMIN_FAMILIES_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "server/metrics/metrics.h"

namespace kiln::server {

using LabelValues = std::vector<prometheus::ClientMetric::Label>;

// Of a series by its number; none if one of its labels has no name.
template <typename... Labels>
std::optional<LabelValues> ValuesOf(size_t series, const OpenNames& names) {
  LabelValues values(sizeof...(Labels));
  if constexpr (sizeof...(Labels) > 0) {
    constexpr std::array<size_t, sizeof...(Labels)> kMost = {LabelOf<Labels>::kMost...};
    std::array<size_t, sizeof...(Labels)> numbers;
    for (size_t i = sizeof...(Labels); i-- > 0; series /= kMost[i]) numbers[i] = series % kMost[i];
    size_t i = 0;
    bool named = true;
    const auto add = [&](const char* label, const char* value) {
      named = named && value != nullptr;
      if (value != nullptr) values[i] = {label, value};
      ++i;
    };
    (add(LabelOf<Labels>::kName, LabelOf<Labels>::NameOf(numbers[i], names)), ...);
    if (!named) return std::nullopt;
  }
  return values;
}

// Series of a list, or none: they are there from the start, so that a rate can be had of the first event. The
// others come with it.
template <typename... Labels>
constexpr bool kFromTheStart = sizeof...(Labels) <= 1 && (true && ... && LabelOf<Labels>::kClosed);

template <typename... Labels>
void AddCounter(const Counter<Labels...>& counter, double scale, const OpenNames& names,
                prometheus::MetricFamily& family) {
  for (size_t series = 0; series < Series<Labels...>::kCount; ++series) {
    // Before its labels are looked at: of most there is nothing.
    const uint64_t sum = counter.Sum(series);
    if (sum == 0 && !kFromTheStart<Labels...>) continue;
    auto labels = ValuesOf<Labels...>(series, names);
    if (!labels.has_value()) continue;
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = *std::move(labels);
    metric.counter.value = static_cast<double>(sum) / scale;
  }
}

template <const auto& kBounds, typename... Labels>
void AddHistogram(const Histogram<kBounds, Labels...>& histogram, const OpenNames& names,
                  prometheus::MetricFamily& family) {
  constexpr double kUnit = Histogram<kBounds, Labels...>::kUnit;
  for (size_t series = 0; series < Series<Labels...>::kCount; ++series) {
    prometheus::ClientMetric::Histogram shown;
    for (size_t bucket = 0; bucket < Histogram<kBounds, Labels...>::kBuckets; ++bucket) {
      shown.sample_count += histogram.Count(series, bucket);
      const bool last = bucket == std::size(kBounds);
      shown.bucket.push_back({shown.sample_count, last ? std::numeric_limits<double>::infinity()
                                                       : static_cast<double>(kBounds[bucket]) / kUnit});
    }
    if (shown.sample_count == 0 && !kFromTheStart<Labels...>) continue;
    auto labels = ValuesOf<Labels...>(series, names);
    if (!labels.has_value()) continue;
    shown.sample_sum = static_cast<double>(histogram.Sum(series)) / kUnit;
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = *std::move(labels);
    metric.histogram = std::move(shown);
  }
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_FAMILIES_H_
