// One POST after the other to an OpenTelemetry collector: OTLP 1 over HTTP, protobuf, gzip. Tested by
// tests/python/server/otlp_test.py.
#ifndef KILN_SERVER_OTLP_SENDER_H_
#define KILN_SERVER_OTLP_SENDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/otlp/settings.h"

namespace kiln::server {

// What became of a request.
struct Sent {
  enum class As {
    kTaken,
    kTryAgain,  // nobody there, nobody in time, or one who has too much to do
    kRefused,
  };
  As as = As::kTryAgain;
  // The collector took the request, and so many of its spans it did not.
  int64_t rejected_spans = 0;
  // It asks to be left alone for so long; zero: it does not say.
  absl::Duration retry_after;
  // Why it was not taken, or not all of it.
  std::string why;
};

// For one thread. Keeps its connection.
class OtlpSender {
 public:
  explicit OtlpSender(const OtlpSettings& settings);
  ~OtlpSender();

  // `body` is an OtlpTraces. Blocks for `most`, or until soon after `stop`, which may be null, is set. Redirections are
  // not followed.
  Sent Send(const std::string& body, absl::Duration most, const std::atomic<bool>* stop);

 private:
  struct Curl;  // its handle and headers
  const OtlpSettings settings_;
  std::unique_ptr<Curl> curl_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_OTLP_SENDER_H_
