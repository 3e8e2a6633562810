// An open-loop load: every request is sent when its schedule says, whether or not those before
// it have been answered, and its latency counts from when it was due.
//
// One thread sends by the clock; answers come on gRPC's own few threads, so a load of any size
// has as many threads as the machine has cores. Of each class no more are under way at once
// than its bound. What is due beyond that is held back, in order, until there is room or its
// deadline has passed, and it waits at its own expense: by what the figures say, a server
// that is too slow is slow, and not spared.
#ifndef KILN_CLIENT_LOAD_GENERATOR_H_
#define KILN_CLIENT_LOAD_GENERATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/client.h"
#include "client/load/histogram.h"
#include "client/load/mix.h"

namespace kiln::load {

class Answers;  // sender.h

struct Step {
  double scale = 1;                           // of every class' rate
  absl::Duration warm_up = absl::Seconds(1);  // at the same rate, and not counted
  absl::Duration length = absl::Seconds(10);  // of what counts
  absl::Duration drain = absl::Seconds(10);   // how long the last answers are waited for
  uint64_t seed = 1;
};

// Failures of one kind.
struct Failures {
  uint64_t count = 0;
  std::string example;  // the first one's text
};

// What became of a class' requests in one step. All times in nanoseconds, from when a request
// was due. due == ok + the failures' counts.
struct ClassResult {
  std::string name;
  double rate = 0;     // as it was scheduled, a second
  double seconds = 0;  // of what counts
  uint64_t due = 0;
  uint64_t sent = 0;
  // Not sent in time: held back, because as many as the bound were under way. Some of them were sent later.
  uint64_t held_back = 0;
  uint64_t ok = 0;
  uint64_t in_deadline = 0;  // of those; all of them where there is no deadline
  // By the status code's name and, where the server says one, the error's: "RESOURCE_EXHAUSTED QUOTA_EXCEEDED".
  // NOT_SENT: held back until its deadline or the end. NOT_ANSWERED: under way for longer than the end was waited for.
  std::map<std::string, Failures> failures;
  Histogram answered;   // those that are ok
  Histogram failed;     // the others, until they had failed; or until the end
  Histogram sent_late;  // the generator's own part: of those that were not held back, until they were sent

  double goodput() const { return seconds > 0 ? static_cast<double>(in_deadline) / seconds : 0; }
  // Of all that were due.
  Histogram Latencies() const;
};

inline constexpr char kNotSent[] = "NOT_SENT", kNotAnswered[] = "NOT_ANSWERED";

// The connections of a mix's tenants, with all that its classes use on the server.
class Generator {
 public:
  // Connects, compiles and uploads. The mix has been checked; `options` has the device and the credentials of who
  // has none of its own. Errors name the class or tenant.
  static absl::StatusOr<std::unique_ptr<Generator>> Make(const std::string& server,
                                                         const client::ClientOptions& options, const Mix& mix,
                                                         uint64_t seed);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Blocks until the step is over and all has been answered or given up. In the mix's order.
  std::vector<ClassResult> Run(const Step& step);

  // From any thread: the step that runs ends now, what counts is as long as it was, and later ones are empty.
  void Stop();

 private:
  struct Tenant;
  class Sender;

  Generator();
  std::unique_ptr<Answers> answers_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::vector<std::unique_ptr<Sender>> senders_;  // one a class
};

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_GENERATOR_H_
