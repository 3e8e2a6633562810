// The parts of an execution or a replay that has succeeded, into the metrics.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_COUNT_TIMING_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_COUNT_TIMING_H_

#include "server/engine/executions/requests.h"
#include "server/metrics/metrics.h"

namespace kiln::server {

// A part that it had no need of is not counted: it would draw its histogram to nothing.
inline void CountTiming(Metrics& metrics, const ExecuteTiming& timing) {
  const auto count = [&metrics](double micros, Phase phase) {
    if (micros > 0) metrics.execute.Observe(static_cast<int64_t>(micros * 1e3), phase);
  };
  count(timing.verify, Phase::kVerify);
  count(timing.cache, Phase::kCache);
  count(timing.compile, Phase::kCompile);
  count(timing.h2d, Phase::kH2d);
  count(timing.queue, Phase::kQueue);
  count(timing.device, Phase::kDevice);
  count(timing.d2h, Phase::kD2h);
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_COUNT_TIMING_H_
