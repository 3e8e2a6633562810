#include "server/engine/executions/execution.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "server/engine/executions/multi_execution.h"
#include "server/engine/memory/over_limit.h"

namespace kiln::server {
namespace {

double MicrosSince(absl::Time begin) { return absl::ToDoubleMicroseconds(absl::Now() - begin); }

}  // namespace

Execution::Execution(ExecuteRequest request, const Control& control, ExecuteCallback done, runtime::Executor* executor,
                     runtime::collective::Collectives* collectives, BufferTable* buffers, uint64_t max_inline_bytes)
    : request_(std::move(request)),
      control_(control),
      done_(std::move(done)),
      executor_(executor),
      collectives_(collectives),
      buffers_(buffers),
      max_inline_bytes_(max_inline_bytes) {}

void Execution::Fail(absl::Status status) {
  std::unique_ptr<Execution> self(this);
  done_(std::move(status));
}

void Execution::Start(ProgramStore::Program program, bool from_cache) {
  result_.program = std::move(program);
  result_.from_cache = from_cache;
  if (result_.program->multi != nullptr) {
    const std::unique_ptr<Execution> self(this);
    return MultiExecution::Start(request_, control_, std::move(done_), *executor_, collectives_, buffers_,
                                 max_inline_bytes_, std::move(result_));
  }
  const absl::Time begin = absl::Now();
  absl::Status status =
      BindArguments(*result_.program->program, request_.arguments, *buffers_, request_.caller.get(), bound_);
  uint64_t inline_bytes = 0;
  if (status.ok()) status = CheckInlineResults(inline_bytes);
  if (status.ok() && request_.results_named) status = MakeNamedResults();
  if (!status.ok()) return Fail(std::move(status));
  if (!request_.settled_by_caller) {
    AddTouched(*result_.program->program, bound_, touched_);
    if (absl::Status healthy = touched_.Check(); !healthy.ok()) return Fail(std::move(healthy));
  }
  if (request_.started) request_.started(*result_.program->program, bound_, inline_bytes);
  // It outlives this, which ends when the run does.
  const std::function<void()> submitted = std::move(request_.submitted);

  int uploads = 0;
  for (const BoundParameter& parameter : bound_.parameters) uploads += parameter.by_value();
  under_way_.store(uploads + 1, std::memory_order_relaxed);
  runtime::hal::Queue& queue = result_.program->program->device().queue();
  for (size_t i = 0; i < bound_.parameters.size(); ++i) {
    if (!bound_.parameters[i].by_value()) continue;
    const absl::string_view data = std::get<TensorView>(bound_.parameters[i].argument->value).data;
    queue.Write(data.data(), bound_.slices[i], [this](const absl::Status& written) { Arrive(written); });
  }
  result_.timing.h2d = MicrosSince(begin);
  executor_->Run(result_.program->program, bound_.slices,
                 {.control = control_, .results = named_, .variables = bound_.variables, .start = this},
                 [this](absl::StatusOr<runtime::RunResult> run) { OnRun(std::move(run)); });
  if (submitted) submitted();
}

absl::Status Execution::MakeNamedResults() {
  const runtime::Program& program = *result_.program->program;
  const auto& results = program.plan().results;
  if (request_.result_names.size() != results.size()) {
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field("result_handle");
    return MakeError(detail, absl::StrCat("the program has ", results.size(), " results; ",
                                          request_.result_names.size(), " handles were given"));
  }
  std::vector<std::shared_ptr<BufferRecord>> records(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const v1::Signature::Result& type = signature().results(static_cast<int>(i));
    if (type.has_aliases()) {
      if (request_.result_names[i] != 0) {
        v1::ErrorDetail detail;
        detail.set_code(v1::BAD_ARGUMENT);
        detail.set_field("result_handle");
        detail.set_handle(request_.result_names[i]);
        return MakeError(detail,
                         absl::StrCat("result ", i, " is the memory of a parameter, which has a handle; give 0"));
      }
      named_.emplace_back();  // a parameter takes no other memory
      continue;
    }
    KILN_ASSIGN_OR_RETURN(auto memory, program.device().allocator().Allocate(results[i].shape.BytesAt(bound_.variables),
                                                                             runtime::hal::MemoryUse::kProgram));
    named_.push_back(runtime::hal::BufferSlice::Whole(std::move(memory)));
    if (request_.result_names[i] == 0) continue;
    records[i] = std::make_shared<BufferRecord>();
    records[i]->slice = named_.back();
    records[i]->device = &program.device();
    records[i]->dtype = type.dtype();
    const std::vector<int64_t> shape = ShapeOf(i);
    records[i]->shape.assign(shape.begin(), shape.end());
    records[i]->poison = buffers_->ExtentOf(request_.result_names[i], 0, 0, request_.caller.get()).extent.poison;
  }
  result_.results.resize(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (records[i] == nullptr) continue;
    result_.results[i].handle = request_.result_names[i];
    result_.results[i].buffer = records[i];
    request_.caller->names().Make(request_.result_names[i], std::move(records[i]));
  }
  return absl::OkStatus();
}

absl::Status Execution::Begin() {
  KILN_RETURN_IF_ERROR(touched_.Check());
  began_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

void Execution::OnRun(absl::StatusOr<runtime::RunResult> run) {
  if (!run.ok()) return Arrive(run.status());
  result_.timing.queue = run->queue_seconds * 1e6;
  result_.timing.device = run->device_seconds * 1e6;
  for (runtime::hal::BufferSlice& slice : run->results) outputs_.push_back(std::move(slice));
  Arrive(absl::OkStatus());
}

void Execution::Arrive(const absl::Status& status) {
  if (!status.ok()) {
    absl::MutexLock lock(&mutex_);
    if (first_error_.ok()) first_error_ = status;
  }
  if (under_way_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  absl::Status error;
  {
    absl::MutexLock lock(&mutex_);
    error = first_error_;
  }
  if (!downloading_ && (error.ok() || began_.load(std::memory_order_relaxed))) touched_.Settle(error);
  if (!error.ok()) return Fail(std::move(error));
  if (downloading_) return Finish();
  Download();
}

// A result that is a parameter sent by value has nowhere to stay, so it goes
// back by value, whatever was asked for; one that is a buffer of the client's
// stays where it is.
bool Execution::IsInline(size_t result) const {
  const v1::Signature::Result& type = signature().results(static_cast<int>(result));
  return type.has_aliases() ? bound_.parameters[type.aliases()].by_value() : request_.results_inline;
}

absl::Status Execution::CheckInlineResults(uint64_t& bytes) const {
  const auto& results = result_.program->program->plan().results;
  // Each has less than 2^63 bytes, and the sum before it fits in memory.
  for (size_t i = 0; i < results.size() && bytes <= max_inline_bytes_; ++i) {
    if (IsInline(i)) bytes += results[i].shape.BytesAt(bound_.variables);
  }
  if (bytes <= max_inline_bytes_) return absl::OkStatus();
  return OverLimit("inline result bytes", max_inline_bytes_, bytes,
                   absl::StrCat("results of ", bytes, " bytes or more, by value; one answer holds ", max_inline_bytes_,
                                ": ask for handles, and Read them"),
                   "result_mode");
}

void Execution::Download() {
  downloading_ = true;
  download_begin_ = absl::Now();
  const v1::Signature& signature = this->signature();
  result_.results.resize(outputs_.size());
  int downloads = 0;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const v1::Signature::Result& type = signature.results(static_cast<int>(i));
    ResultValue& value = result_.results[i];
    value.index = static_cast<int>(i);
    if (IsInline(i)) {
      value.data.resize(outputs_[i].bytes);
      value.shape = ShapeOf(i);
      ++downloads;
    } else if (type.has_aliases()) {
      const BoundParameter& parameter = bound_.parameters[type.aliases()];
      value.handle = std::get<BufferAddress>(parameter.argument->value).handle;
      value.buffer = parameter.record;
    }
  }
  if (downloads == 0) return Finish();
  // The last download may end before this loop does and take `this` with it.
  under_way_.store(downloads, std::memory_order_relaxed);
  runtime::hal::Queue& queue = result_.program->program->device().queue();
  const ProgramStore::Program keep = result_.program;
  for (size_t i = 0; downloads > 0; ++i) {
    if (!IsInline(i)) continue;
    --downloads;
    queue.Read(outputs_[i], result_.results[i].data.data(), [this](const absl::Status& read) { Arrive(read); });
  }
}

void Execution::Finish() {
  if (request_.results_named) {
    result_.timing.d2h = MicrosSince(download_begin_);
    std::unique_ptr<Execution> self(this);
    return done_(std::move(result_));
  }
  // Handles that nobody will hear of would be memory that nobody can free.
  if (absl::Status wanted = control_.Check(); !wanted.ok()) return Fail(std::move(wanted));
  const v1::Signature& signature = this->signature();
  std::vector<uint64_t> made;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const v1::Signature::Result& type = signature.results(static_cast<int>(i));
    if (type.has_aliases() || request_.results_inline) continue;
    auto record = std::make_shared<BufferRecord>();
    record->slice = std::move(outputs_[i]);
    record->device = &result_.program->program->device();
    record->dtype = type.dtype();
    const std::vector<int64_t> shape = ShapeOf(i);
    record->shape.assign(shape.begin(), shape.end());
    record->owner = request_.caller;
    record->poison = std::make_shared<Poison>();
    const auto handle = buffers_->Add(record);
    if (!handle.ok()) {
      // The session has freed them, or may not be shown them any more.
      buffers_->Free(made, request_.caller.get()).IgnoreError();
      return Fail(handle.status());
    }
    made.push_back(*handle);
    result_.results[i].handle = *handle;
    result_.results[i].buffer = std::move(record);
  }
  result_.timing.d2h = MicrosSince(download_begin_);
  std::unique_ptr<Execution> self(this);
  done_(std::move(result_));
}

}  // namespace kiln::server
