// What a load showed, as text for people and as JSON for programs.
#ifndef KILN_CLIENT_LOAD_REPORT_H_
#define KILN_CLIENT_LOAD_REPORT_H_

#include <string>
#include <vector>

#include "client/load/generator.h"

namespace kiln::load {

struct StepResult {
  double rate = 0;  // of all classes together, as scheduled
  Step step;
  std::vector<ClassResult> classes;

  double goodput() const;
  // Of all classes: OK, and by which percentiles.
  Histogram Answered() const;
  Histogram Latencies() const;
};

// A table of a step: a row a class, with a second one for its requests that failed, if any did; and
// what failed, with an example each.
std::string StepText(const StepResult& result);

// A row a step: offered, answered, goodput, latencies. Empty for fewer than two.
std::string CurveText(const std::vector<StepResult>& results);

// {"steps": [...]}; times in microseconds. Each histogram's buckets are [end, count] in rising order.
std::string ToJson(const std::vector<StepResult>& results);

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_REPORT_H_
