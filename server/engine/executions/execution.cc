#include "server/engine/executions/execution.h"

#include <utility>

#include "base/clock.h"
#include "runtime/exec/task_run.h"
#include "runtime/hal/wanted_copy.h"
#include "server/engine/executions/count_timing.h"
#include "server/fair/lane.h"
#include "server/fair/long_transfer.h"
#include "server/metrics/count.h"

namespace kiln::server {
namespace {

using runtime::ProgramValue;
using runtime::hal::BufferSlice;

// What is whole on several devices is one of them.
size_t SharesToRead(const ProgramValue& value) { return value.layout.axis < 0 ? 1 : value.slices.size(); }

}  // namespace

Execution::Execution(ExecuteRequest request, const Control& control, ExecuteCallback done, runtime::Executor* executor,
                     runtime::collective::Collectives* collectives, BufferTable* buffers, Turns* turns,
                     uint64_t max_inline_bytes, Metrics* metrics)
    : request_(std::move(request)),
      control_(control),
      done_(std::move(done)),
      executor_(executor),
      collectives_(collectives),
      buffers_(buffers),
      turns_(turns),
      max_inline_bytes_(max_inline_bytes),
      metrics_(metrics) {}

void Execution::Fail(absl::Status status) {
  std::unique_ptr<Execution> self(this);
  if (!request_.of_several) {
    CountEnded(*metrics_, status,
               began_.load(std::memory_order_relaxed) && place_ == Place::kQueue ? Place::kDevice : place_);
  }
  if (ended_ != nullptr) ended_(nullptr);
  LetGo();
  done_(std::move(status));
}

void Execution::Found(ProgramStore::Program program, bool from_cache) {
  result_.program = std::move(program);
  result_.from_cache = from_cache;
  place_ = Place::kQueue;
}

void Execution::Answer(ExecuteResult result, absl::Duration waited) {
  if (absl::Status wanted = control_.Check(); !wanted.ok()) return Fail(std::move(wanted));
  std::unique_ptr<Execution> self(this);
  result.from_cache = result_.from_cache;
  result.timing.verify = result_.timing.verify;
  result.timing.cache = result_.timing.cache;
  result.timing.compile = result_.timing.compile;
  result.timing.queue += absl::ToDoubleMicroseconds(waited);
  CountTiming(*metrics_, result.timing);
  LetGo();
  done_(std::move(result));
}

void Execution::Run(absl::Duration waited, absl::AnyInvocable<void(const ExecuteTiming*)> ended) {
  ended_ = std::move(ended);
  result_.timing.queue = absl::ToDoubleMicroseconds(waited);
  if (request_.parts != nullptr) request_.parts->device.Set(result_.program->device->name());
  const absl::Time begin = SteadyNow();
  const bool single = loaded().single() != nullptr;
  // Of the first of them, the request has been asked already.
  absl::Status status =
      single ? absl::OkStatus() : CheckDevices(RulesOf(request_.caller.get()), loaded().DistinctDevices());
  if (status.ok())
    status = BindArguments(loaded(), request_.arguments, *buffers_, request_.caller.get(), control_.domain, bound_);
  uint64_t inline_bytes = 0;
  if (status.ok()) status = CheckInlineResults(inline_bytes);
  if (status.ok()) status = PayForAnswer(inline_bytes);
  if (status.ok()) status = CheckRate(control_.account, Quota::kDeviceSeconds);
  if (status.ok()) status = CheckSecondsOf(control_.account, result_.program->cost());
  if (status.ok() && request_.results_named) status = CheckNames();
  if (status.ok() && request_.results_named && single) status = MakeNamedResults();
  if (status.ok() && !request_.settled_by_caller) {
    AddTouched(loaded(), bound_, touched_);
    status = touched_.Check();
  }
  if (!status.ok()) return Fail(std::move(status));
  if (request_.started && single) request_.started(loaded(), bound_, inline_bytes);
  // It outlives this, which ends when the run does.
  const std::function<void()> submitted = single ? std::move(request_.submitted) : nullptr;
  turn_asked_ = SteadyNow();
  result_.timing.h2d = absl::ToDoubleMicroseconds(turn_asked_ - begin);
  Note(Part::kArguments, begin, turn_asked_);
  TakeTurn();
  if (submitted) submitted();
}

void Execution::TakeTurn() {
  TurnRequest asked{control_, {}};
  if (const auto& single = loaded().single(); single != nullptr) {
    asked.devices = {&single->device()};
    const runtime::Estimate& estimate = single->estimate();
    asked.estimate_ns = estimate.expected_ns();
    asked.spread_ns = estimate.spread_ns();
    // How long runs of other callers took, with other sizes or several as one, is no reason to refuse this one.
    const bool of_many = request_.program != nullptr || result_.program->rows.has_value();
    asked.guessed = estimate.guessed() || (of_many && !bound_.variables.empty());
    asked.may_be_long = estimate.floor_ns() > asked.estimate_ns;
  } else {
    for (runtime::hal::Device* device : loaded().DistinctDevices()) asked.devices.push_back(device);
    asked.estimate_ns = loaded().cost().run_ns();
    asked.guessed = true;
  }
  asked.estimate_ns += TransferNs(UploadBytes());
  asked.trials = &result_.program->trials;
  asked.program = result_.program->graph_hash;
  turns_->Take(std::move(asked), [this](absl::StatusOr<Turn> turn) { OnTurn(std::move(turn)); });
}

void Execution::OnTurn(absl::StatusOr<Turn> turn) {
  const absl::Time begin = SteadyNow();
  result_.timing.queue += absl::ToDoubleMicroseconds(begin - turn_asked_);
  Note(Part::kTurn, turn_asked_, begin);
  if (!turn.ok()) {
    under_way_.store(1, std::memory_order_relaxed);
    return Arrive(turn.status());
  }
  turn_ = *std::move(turn);
  Upload();
  submitted_ = SteadyNow();
  result_.timing.h2d += absl::ToDoubleMicroseconds(submitted_ - begin);
  Note(Part::kUpload, begin, submitted_);
  Submit();
}

uint64_t Execution::UploadBytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < bound_.arguments.size(); ++i) {
    if (bound_.by_value(i)) bytes += std::get<TensorView>(bound_.arguments[i]->value).data.size();
  }
  return bytes;
}

void Execution::Upload() {
  int uploads = 0;
  for (size_t i = 0; i < bound_.arguments.size(); ++i) {
    if (bound_.by_value(i)) uploads += static_cast<int>(loaded().parameters()[i].slices.size());
  }
  under_way_.store(uploads + 1, std::memory_order_relaxed);
  for (size_t i = 0; uploads > 0 && i < bound_.arguments.size(); ++i) {
    if (!bound_.by_value(i)) continue;
    const ProgramValue& value = loaded().parameters()[i];
    const char* const data = std::get<TensorView>(bound_.arguments[i]->value).data.data();
    for (size_t share = 0; share < value.slices.size(); ++share) {
      const BufferSlice& to = bound_.slices[value.first + share];
      // A parameter is split along its first axis, so its shares lie in a row.
      const char* const from = data + (value.layout.axis < 0 ? 0 : share * to.bytes);
      LongWrite(loaded().device_of_taken(value.first + share), from, to, control_,
                [this](const absl::Status& written) { Arrive(written); });
    }
  }
}

void Execution::Submit() {
  runtime::RunOptions options = {.control = control_, .results = named_, .variables = bound_.variables, .start = this};
  if (loaded().single() != nullptr) {
    options.control.interruption = turn_.interruption();
    return executor_->Run(loaded().single(), bound_.slices, options, [this](absl::StatusOr<runtime::RunResult> run) {
      if (!run.ok()) return EndRun(run.status());
      result_.timing.queue += run->queue_seconds * 1e6;
      result_.timing.device = run->device_seconds * 1e6;
      if (request_.parts != nullptr) request_.parts->SetRun(submitted_, run->queue_seconds, run->device_seconds);
      for (BufferSlice& slice : run->results) outputs_.push_back(std::move(slice));
      EndRun(absl::OkStatus());
    });
  }
  runtime::TaskRun::Start(result_.program->program, bound_.slices, options, *executor_, collectives_,
                          [this](absl::StatusOr<runtime::TaskRunResult> run) {
                            if (!run.ok()) return EndRun(run.status());
                            result_.timing.device = run->device_seconds * 1e6;
                            if (request_.parts != nullptr) request_.parts->SetRun(submitted_, 0, run->device_seconds);
                            result_.collectives = std::move(run->collectives);
                            for (BufferSlice& slice : run->results) outputs_.push_back(std::move(slice));
                            EndRun(absl::OkStatus());
                          });
}

// A run that failed has taken the time since it began.
void Execution::EndRun(const absl::Status& status) {
  if (status.ok()) ran_ns_ = result_.program->CountRun(result_.timing.device, submitted_) + TransferNs(UploadBytes());
  Arrive(status);
}

absl::Status Execution::Begin() {
  KILN_RETURN_IF_ERROR(touched_.Check());
  began_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

void Execution::Arrive(const absl::Status& status) {
  if (!status.ok()) {
    absl::MutexLock lock(&mutex_);
    if (first_error_.ok()) first_error_ = runtime::hal::WithoutNote(status);
  }
  if (under_way_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  absl::Status error;
  {
    absl::MutexLock lock(&mutex_);
    error = first_error_;
  }
  if (downloading_) return error.ok() ? Finish() : Fail(std::move(error));
  if (error.ok() || began_.load(std::memory_order_relaxed)) touched_.Settle(error);
  if (error.ok()) return Download();
  EndTurn();
  Fail(std::move(error));
}

void Execution::Download() {
  downloading_ = true;
  place_ = Place::kAnswer;
  download_begin_ = SteadyNow();
  const std::vector<ProgramValue>& results = loaded().results();
  result_.results.resize(results.size());
  int downloads = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    ResultValue& value = result_.results[i];
    value.index = static_cast<int>(i);
    if (!IsInline(i)) continue;
    value.shape = results[i].shape.At(bound_.variables);
    value.data.resize(results[i].shape.BytesAt(bound_.variables));
    const size_t shares = SharesToRead(results[i]);
    downloads += static_cast<int>(shares);
    if (shares == 1) continue;
    downloads_.resize(results.size());
    for (size_t share = 0; share < shares; ++share)
      downloads_[i].emplace_back(outputs_[results[i].first + share].bytes, '\0');
  }
  under_way_.store(downloads + 1, std::memory_order_relaxed);
  // Results with names are there: their client hears so, stopped or not.
  const Control control = request_.results_named ? Control() : control_;
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t share = 0; IsInline(i) && share < SharesToRead(results[i]); ++share) {
      char* const to = SharesToRead(results[i]) == 1 ? result_.results[i].data.data() : downloads_[i][share].data();
      const size_t from = results[i].first + share;
      LongRead(loaded().device_of_given(from), outputs_[from], to, control,
               [this](const absl::Status& read) { Arrive(read); });
    }
  }
  EndTurn();
  Arrive(absl::OkStatus());  // the one more, for this loop
}

void Execution::Finish() {
  // Handles that nobody will hear of would be memory that nobody can free. Names are the
  // client's own.
  if (absl::Status wanted = control_.Check(); !wanted.ok() && !request_.results_named) return Fail(std::move(wanted));
  Gather();
  if (absl::Status filed = FileResults(); !filed.ok()) return Fail(std::move(filed));
  const absl::Time end = SteadyNow();
  result_.timing.d2h = absl::ToDoubleMicroseconds(end - download_begin_);
  Note(Part::kResults, download_begin_, end);
  if (!request_.of_several) CountTiming(*metrics_, result_.timing);
  std::unique_ptr<Execution> self(this);
  if (ended_ != nullptr) ended_(&result_.timing);
  LetGo();
  done_(std::move(result_));
}

void Execution::LetGo() {
  bound_ = {};
  request_.arguments.clear();
  outputs_.clear();
  named_.clear();
}

}  // namespace kiln::server
