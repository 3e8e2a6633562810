// Sends sampled traces to an OpenTelemetry collector, on a thread of its own: no call waits for it, and a collector
// that is slow, or is not there, costs what it does not get. Tested by tests/python/server/otlp_test.py.
#ifndef KILN_SERVER_OTLP_EXPORTER_H_
#define KILN_SERVER_OTLP_EXPORTER_H_

#include <spdlog/fwd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/random/random.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/metrics/metrics.h"
#include "server/otlp/backlog.h"
#include "server/otlp/sender.h"
#include "server/otlp/settings.h"
#include "server/otlp/spans.h"

namespace kiln::server {

// How long after so many failures in a row, 1 or more, the next try waits: a second, then twice as long each time, half
// a minute at most; of that between a half and all, as `part`, 0 to 1, says, so that servers whose collector comes
// back do not all come at once. `asked`, the collector's own wish, is the least.
absl::Duration WaitAfter(int failures, double part, absl::Duration asked);

class OtlpExporter {
 public:
  // Takes what comes into `backlog`. What `names` uses outlives this.
  OtlpExporter(const OtlpSettings& settings, std::shared_ptr<Backlog> backlog, SpanNames names, Metrics* metrics,
               std::shared_ptr<spdlog::logger> log);
  // What is there is tried once more, for a second.
  ~OtlpExporter();

 private:
  void Run();
  // Until it is sent, refused, or has been tried often enough; or the end has come.
  void Export(const Backlog::Taken& taken);
  Sent Try(const std::string& body, absl::Duration most, const std::atomic<bool>* stop);
  void Count(const Backlog::Taken& taken, const Sent& sent);
  std::string BodyOf(const Backlog::Taken& taken) const;

  const OtlpSettings settings_;
  const std::shared_ptr<Backlog> backlog_;
  const SpanNames names_;
  Metrics* const metrics_;
  const std::shared_ptr<spdlog::logger> log_;
  // Of the thread.
  OtlpSender sender_;
  absl::BitGen random_;
  int failures_ = 0;  // in a row
  std::atomic<bool> stopping_{false};
  absl::Notification stopped_;
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_OTLP_EXPORTER_H_
