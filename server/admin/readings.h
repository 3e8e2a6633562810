// What is not counted but looked up at a scrape: the READ rows of server/metrics/metrics.def. Tested by
// tests/python/server/metrics_test.py.
#ifndef KILN_SERVER_ADMIN_READINGS_H_
#define KILN_SERVER_ADMIN_READINGS_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "server/metrics/labels.h"
#include "server/models/served_model.h"

namespace kiln::server {

class Engine;

// Where it is looked up.
struct Sources {
  Engine* engine = nullptr;
  bool ready = false;
  // Of which OpenNames has the names, in this order.
  std::vector<ServedModelPtr> models;
};

// One family a row; those of models, whose names promtool finds fault with, where there are any. Takes no lock that a
// call waits for, but each allocator's and each model's for as long as it takes to copy its numbers.
void AppendReadings(const Sources& sources, const OpenNames& names, std::vector<prometheus::MetricFamily>& families);

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_READINGS_H_
