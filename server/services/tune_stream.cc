// DebugService.Tune: what a search tries, as it tries it.
#include <atomic>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "kiln/v1/debug_service.pb.h"
#include "server/engine/programs/compile_options.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

// Messages that wait for a client that reads slowly: beyond it, candidates are left out.
constexpr size_t kMaxWaiting = 1024;

class TuneStream final : public DownloadReactor {
 public:
  explicit TuneStream(Admitted admitted) : admitted_(std::move(admitted)), env_(admitted_.env()) {
    control_.cancelled = &cancelled_;
    control_.deadline = DeadlineOf(admitted_.context());
    control_.account = admitted_.account();
  }

  // `bytes` are gRPC's until the call is done.
  void Begin(const grpc::ByteBuffer& bytes) {
    absl::Status status = Pay(bytes);
    if (status.ok()) {
      if (bytes.Length() <= kSmallRequest) return Run(bytes);
      status = env_.requests.Offer(CallerOf(admitted_), bytes.Length(), [this, &bytes] { Run(bytes); });
    }
    if (!status.ok()) End(std::move(status));
  }

 private:
  absl::Status Pay(const grpc::ByteBuffer& bytes) {
    KILN_ASSIGN_OR_RETURN(caller_, SessionOf(admitted_));
    control_.flow = FlowOf(admitted_, caller_);
    KILN_RETURN_IF_ERROR(CheckRate(control_.account, Quota::kSearchSeconds));
    KILN_RETURN_IF_ERROR(PayForUpload(control_.account, bytes));
    KILN_ASSIGN_OR_RETURN(charge_, Hold(control_.account, Quota::kHostBytes, bytes.Length()));
    return absl::OkStatus();
  }

  void Run(const grpc::ByteBuffer& bytes) {
    if (absl::Status status = Decoded(bytes); !status.ok()) return End(std::move(status));
    TuneRequest asked;
    asked.graph_hash = request_.graph_hash();
    if (request_.has_graph()) asked.graph = &request_.graph();
    asked.device = request_.device();
    asked.caller = caller_;
    asked.options = ToOptions(request_.options());
    asked.progress = [this](const compiler::TuneEvent& event) { Tell(event); };
    env_.engine.Tune(std::move(asked), control_, [this](absl::StatusOr<TuneResult> result) {
      if (!result.ok()) return End(std::move(result).status());
      Tell(*result);
      End(absl::OkStatus());
    });
  }

  absl::Status Decoded(const grpc::ByteBuffer& bytes) {
    KILN_RETURN_IF_ERROR(control_.Check());
    KILN_RETURN_IF_ERROR(Decode(bytes, LimitsOf(env_), request_, control_));
    if (control_.account == nullptr) return absl::OkStatus();
    return charge_.Grow(DecodedBytes(request_, bytes.Length()));
  }

  void Tell(const compiler::TuneEvent& event) {
    v1::TuneResponse response;
    v1::TuneResponse::Candidate& candidate = *response.mutable_candidate();
    candidate.set_kernel(event.kernel);
    candidate.set_kernels(event.kernels);
    candidate.set_name(event.name);
    candidate.set_schedule(event.schedule);
    candidate.set_micros(event.fault.empty() ? event.micros : 0);
    candidate.set_fault(event.fault);
    candidate.set_best_micros(event.best_micros);
    candidate.set_first_micros(event.first_micros);
    Send(response, /*needed=*/false);
  }

  void Tell(const TuneResult& result) {
    v1::TuneResponse response;
    v1::TuneResponse::Done& done = *response.mutable_done();
    done.set_graph_hash(std::string(result.graph_hash.view()));
    *done.mutable_kernels() = result.tuned.executable.kernels();
    for (const compiler::TunedKernel& kernel : result.tuned.kernels) {
      v1::TuneResponse::Times& times = *done.add_times();
      times.set_kernel(kernel.kernel);
      times.set_calls(kernel.calls);
      times.set_first_micros(kernel.first_micros);
      times.set_best_micros(kernel.best_micros);
    }
    done.set_first_micros(result.tuned.first_micros);
    done.set_best_micros(result.tuned.best_micros);
    done.set_candidates(result.tuned.candidates);
    done.set_out_of_time(result.tuned.out_of_time);
    Send(response, /*needed=*/true);
  }

  void Send(const v1::TuneResponse& response, bool needed) {
    grpc::ByteBuffer message;
    if (!Encode(response, message).ok()) return;
    mutex_.Lock();
    if (needed || waiting_.size() < kMaxWaiting) waiting_.push_back(std::move(message));
    NextAndUnlock();
  }

  // Once; nothing is sent after it, and nothing of this object may be touched.
  void End(absl::Status status) {
    mutex_.Lock();
    ending_ = std::move(status);
    NextAndUnlock();
  }

  // Writes the next message, or finishes behind the last. Who has nothing to do here
  // leaves it to the one that writes, which may finish at once.
  void NextAndUnlock() ABSL_UNLOCK_FUNCTION(mutex_) {
    if (writing_ || (waiting_.empty() && !ending_.has_value())) return mutex_.Unlock();
    writing_ = true;
    if (waiting_.empty()) {
      const absl::Status status = *ending_;
      mutex_.Unlock();
      return FinishWith(static_cast<DownloadReactor&>(*this), admitted_, status);
    }
    message_ = std::move(waiting_.front());
    waiting_.pop_front();
    mutex_.Unlock();
    CountSent(admitted_, message_);
    StartWrite(&message_);
  }

  void OnWriteDone(bool ok) override {
    mutex_.Lock();
    writing_ = false;
    if (!ok) {
      waiting_.clear();
      cancelled_.store(true, std::memory_order_relaxed);  // who does not read, does not want it
    }
    NextAndUnlock();
  }

  void OnCancel() override { cancelled_.store(true, std::memory_order_relaxed); }

  void OnEnd() override { delete this; }

  const Admitted admitted_;
  const ServiceEnv& env_;
  Charge charge_;
  SessionPtr caller_;
  v1::TuneRequest request_;
  std::atomic<bool> cancelled_{false};
  Control control_;
  grpc::ByteBuffer message_;  // while writing_, gRPC's
  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<grpc::ByteBuffer> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

DownloadReactor* rpc::DebugService::Tune(Admitted admitted, const grpc::ByteBuffer& request) {
  auto* stream = new TuneStream(std::move(admitted));
  stream->Begin(request);
  return stream;
}

}  // namespace kiln::server
