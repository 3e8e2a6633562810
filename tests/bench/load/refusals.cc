#include "tests/bench/load/refusals.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile_program.h"
#include "kiln/v1/kernel_service.pb.h"
#include "runtime/drivers/cpu/device.h"
#include "server/engine/engine.h"
#include "server/messages/convert.h"
#include "server/messages/status.h"
#include "server/services/requests/codec.h"
#include "tests/bench/bench_server.h"
#include "tests/bench/load/loads.h"

namespace kiln::bench {
namespace {

// Of one caller, at most: more are refused.
constexpr size_t kLine = 64;
// Two callers: the runs of the first fill the device's line, and those of the second could not end in time.
constexpr uint64_t kCrowd = 1, kOther = 2;
// Between two that are refused.
constexpr absl::Duration kPause = absl::Milliseconds(1);
// A call that was refused as it asked for its turn has waited for it no longer than it takes to say so, on a busy
// machine; who waits is looked at every five milliseconds.
constexpr int64_t kAtOnceNs = 1'000'000;

// What the calling thread has had of a core.
double ThreadMicros() {
  timespec now = {};
  KILN_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// One call: what it lends the engine, and how it ended.
struct Call {
  v1::ExecuteRequest request;
  const std::thread::id thread = std::this_thread::get_id();  // which asks
  bool asking = true;                                         // for that thread alone
  grpc::Status answer;
  double micros = 0;     // of its thread, until it was answered
  bool at_once = false;  // within the call to the engine
  absl::Notification ended;
};

// An engine on this machine's cores, and runs of one program.
class BusyEngine {
 public:
  explicit BusyEngine(int64_t elements) {
    server::EngineOptions options;
    options.turns.most_waiting = kLine;
    std::vector<std::unique_ptr<runtime::hal::Device>> devices;
    devices.push_back(*runtime::cpu::CreateDevice({}));
    engine_ = std::make_unique<server::Engine>(options, std::move(devices), server::InProcess(compiler::CompileProgram),
                                               /*gradient=*/nullptr);
    const auto graph = ParseGraph(SumOfSinesText(absl::StrCat(elements)));
    KILN_CHECK(graph.ok());
    v1::ExecuteRequest request;
    absl::Notification compiled;
    engine_->Compile({&*graph, "", {}, nullptr}, {}, [&](const absl::StatusOr<server::CompileResult>& made) {
      KILN_CHECK(made.ok());
      request.set_graph_hash(std::string(made->program->graph_hash.view()));
      compiled.Notify();
    });
    compiled.WaitForNotification();
    const auto buffer = engine_->buffers().Allocate("", static_cast<uint64_t>(elements) * sizeof(float));
    KILN_CHECK(buffer.ok());
    request.add_arguments()->mutable_buffer()->set_handle(buffer->handle);
    request.set_result_mode(v1::RESULT_INLINE);
    message_ = ToMessage(request.SerializeAsString());
    // How long it takes is known from then on.
    for (int i = 0; i < 3; ++i) {
      const auto call = Ask({});
      call->ended.WaitForNotification();
      KILN_CHECK(call->answer.ok());
    }
  }
  ~BusyEngine() {
    cancelled_ = true;
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(+[](int* under_way) { return *under_way == 0; }, &under_way_));
  }

  // As a service does with a call that has come.
  std::shared_ptr<Call> Ask(server::Control control) {
    const auto call = std::make_shared<Call>();
    control.cancelled = &cancelled_;
    if (absl::MutexLock lock(&mutex_); true) ++under_way_;
    const double begin = ThreadMicros();
    KILN_CHECK(server::Decode(message_, {.nodes = engine_->limits().max_nodes}, call->request, control).ok());
    auto asked = server::ToExecuteRequest(call->request);
    KILN_CHECK(asked.ok());
    engine_->Execute(*std::move(asked), control,
                     [this, call, begin](const absl::StatusOr<server::ExecuteResult>& result) {
                       call->answer = server::ToGrpc(result.status());
                       call->at_once = std::this_thread::get_id() == call->thread && call->asking;
                       if (call->at_once) call->micros = ThreadMicros() - begin;
                       call->ended.Notify();
                       absl::MutexLock lock(&mutex_);
                       --under_way_;
                     });
    call->asking = false;
    return call;
  }

  // Until the crowd has as many waiting as it may; the refusal of one more.
  std::shared_ptr<Call> FillLine() {
    for (;;) {
      auto call = Ask({.flow = kCrowd});
      if (call->at_once && call->answer.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) return call;
    }
  }

 private:
  std::unique_ptr<server::Engine> engine_;
  grpc::ByteBuffer message_;
  std::atomic<bool> cancelled_{false};
  absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

void PrintRow(const char* what, const std::vector<double>& micros, int asked) {
  std::printf("| %s | %d | %zu | %.1f | %.1f |\n", what, asked, micros.size(), Percentile(micros, 0.5),
              Percentile(micros, 0.99));
}

}  // namespace

void PrintRefusalCost(double seconds, int64_t elements) {
  BusyEngine engine(elements);
  std::vector<double> no_room, too_late;
  int beside = 0;
  for (const absl::Time end = SteadyNow() + absl::Seconds(seconds); SteadyNow() < end;) {
    no_room.push_back(engine.FillLine()->micros);
    const auto late = engine.Ask({.deadline = SteadyNow() + absl::Milliseconds(10), .flow = kOther});
    ++beside;
    if (late->at_once && !late->answer.ok()) too_late.push_back(late->micros);
    late->ended.WaitForNotification();
    absl::SleepFor(kPause);
  }
  std::printf(
      "\nwhat the engine takes of a core to refuse a run:\n\n| why | asked | refused at once | µs p50 | p99 "
      "|\n|---|---|---|---|---|\n");
  PrintRow("its caller has as much waiting as it may", no_room, static_cast<int>(no_room.size()));
  if (!too_late.empty()) PrintRow("it could not be in time", too_late, beside);
}

TooLateRuns TooLateSince(const server::Traces& traces, absl::Time since) {
  TooLateRuns runs;
  for (const server::CallRecord& call : traces.Calls({.since_ns = absl::ToUnixNanos(since)})) {
    if (call.status != grpc::StatusCode::DEADLINE_EXCEEDED) continue;
    const auto of = [&call](server::Part part) { return call.parts.parts[static_cast<size_t>(part)]; };
    const server::Interval turn = of(server::Part::kTurn);
    const bool at_once =
        of(server::Part::kUpload).end_ns == 0 && turn.end_ns != 0 && turn.end_ns - turn.begin_ns <= kAtOnceNs;
    (at_once ? runs.at_once : runs.later).push_back(static_cast<double>(call.time.end_ns - call.time.begin_ns) / 1e3);
  }
  return runs;
}

}  // namespace kiln::bench
