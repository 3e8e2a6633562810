#include "runtime/exec/multi_run.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/exec/check_executable.h"
#include "runtime/exec/fold.h"

namespace kiln::runtime {
namespace {

// A guess at how fast memory is copied, for the queue's choice of a thread.
constexpr uint64_t kCopiedBytesPerNs = 4;

}  // namespace

void MultiRun::Start(std::shared_ptr<const MultiProgram> program, absl::Span<const hal::BufferSlice> shares,
                     const RunOptions& options, Executor executor, RunCallback callback) {
  if (absl::Status status = program->Check(shares, options.variables); !status.ok()) return callback(std::move(status));
  std::unique_ptr<MultiRun> run(new MultiRun(std::move(program), options, executor, std::move(callback)));
  if (absl::Status status = run->MakeSlices(shares); !status.ok()) return run->callback_(std::move(status));
  MultiRun* const started = run.release();
  started->mutex_.Lock();
  const std::vector<MultiTask>& tasks = started->program_->tasks();
  started->left_ = tasks.size();
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    started->waits_.push_back(tasks[i].waits_for);
    if (tasks[i].waits_for == 0) started->ready_.push(i);
  }
  started->draining_ = true;
  started->mutex_.Unlock();
  started->Drain();
}

MultiRun::MultiRun(std::shared_ptr<const MultiProgram> program, const RunOptions& options, Executor executor,
                   RunCallback callback)
    : program_(std::move(program)),
      control_(options.control),
      variables_(options.variables.begin(), options.variables.end()),
      executor_(executor),
      callback_(std::move(callback)) {}

absl::Status MultiRun::MakeSlices(absl::Span<const hal::BufferSlice> shares) {
  std::vector<std::shared_ptr<hal::Buffer>> arenas(program_->device_count());
  std::vector<hal::BufferSlice> results(program_->result_shares());
  for (const MultiSlice& slice : program_->slices()) {
    hal::Allocator& allocator = program_->device(slice.device).allocator();
    switch (slice.space) {
      case v1::PlacedValue::PARAMETER: slices_.push_back(shares[slice.index]); break;
      case v1::PlacedValue::RESULT: {
        hal::BufferSlice& result = results[slice.index];
        if (result.buffer == nullptr) {
          KILN_ASSIGN_OR_RETURN(auto buffer, allocator.Allocate(slice.bytes, hal::MemoryUse::kProgram));
          result = hal::BufferSlice::Whole(std::move(buffer));
        }
        slices_.push_back(result);
        break;
      }
      default: {
        std::shared_ptr<hal::Buffer>& arena = arenas[slice.device];
        if (arena == nullptr) {
          KILN_ASSIGN_OR_RETURN(arena,
                                allocator.Allocate(program_->arena_bytes()[slice.device], hal::MemoryUse::kProgram));
        }
        slices_.push_back({arena, slice.offset, slice.bytes});
      }
    }
  }
  return absl::OkStatus();
}

void MultiRun::Drain() {
  mutex_.Lock();
  while (!ready_.empty()) {
    const uint32_t task = ready_.top();
    ready_.pop();
    if (!first_error_.ok()) {
      MarkDone(task);
      continue;
    }
    mutex_.Unlock();
    Launch(task);  // may be done before it returns
    mutex_.Lock();
  }
  draining_ = false;
  const bool finished = left_ == 0;
  mutex_.Unlock();
  if (finished) Finish();
}

void MultiRun::Launch(uint32_t number) {
  const MultiTask& task = program_->tasks()[number];
  if (task.kind == MultiTask::Kind::kSegment) return LaunchSegment(task, number);
  hal::Queue& queue = program_->device(task.device).queue();
  queue.Submit(
      [this, &task, number] {
        absl::Status status = control_.Check();
        if (status.ok()) status = Move(task);
        Done(number, status);
      },
      task.bytes / kCopiedBytesPerNs);
}

void MultiRun::LaunchSegment(const MultiTask& task, uint32_t number) {
  absl::InlinedVector<hal::BufferSlice, 8> parameters, results;
  for (uint32_t slice : task.parameters) parameters.push_back(slices_[slice]);
  for (uint32_t slice : task.results) results.push_back(slices_[slice]);
  const std::vector<int64_t> variables = MultiProgram::VariablesOf(task, variables_);
  executor_.Run(task.program, parameters, {.control = control_, .results = results, .variables = variables},
                [this, number](const absl::StatusOr<RunResult>& result) { Done(number, result.status()); });
}

absl::Status MultiRun::Move(const MultiTask& task) {
  const uint32_t item = task.dtype == v1::DTYPE_UNSPECIFIED ? 1 : StoredBytes(task.dtype);
  for (const BoxCopy& box : task.copies) {
    const char* from = static_cast<const char*>(slices_[box.from].host_data());
    char* to = static_cast<char*>(slices_[box.to].host_data());
    if (from == nullptr || to == nullptr)
      return MakeError(v1::NOT_IMPLEMENTED, "a transfer between devices whose memory the host does not see");
    if (box.fold) {
      ForEachRun(box, from, to, [&](const char* source, char* target, uint64_t bytes) {
        Fold(task.dtype, task.fold, source, target, bytes / item);
      });
    } else {
      ForEachRun(box, from, to,
                 [](const char* source, char* target, uint64_t bytes) { std::memcpy(target, source, bytes); });
    }
  }
  return absl::OkStatus();
}

void MultiRun::MarkDone(uint32_t task) {
  for (uint32_t dependent : program_->tasks()[task].dependents) {
    if (--waits_[dependent] == 0) ready_.push(dependent);
  }
  --left_;
}

void MultiRun::Done(uint32_t task, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (!status.ok() && first_error_.ok()) first_error_ = status;
    MarkDone(task);
    // What is ready goes its way on the thread that drains: so however many tasks run
    // within the call that submits them, none runs within another.
    if (std::exchange(draining_, true)) return;
  }
  Drain();
}

void MultiRun::Finish() {
  const std::unique_ptr<MultiRun> self(this);
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = first_error_;
  }
  if (!status.ok()) return callback_(std::move(status));
  std::vector<hal::BufferSlice> results;
  for (const MultiValue& value : program_->results()) {
    for (uint32_t slice : value.slices) results.push_back(slices_[slice]);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
  callback_(RunResult{absl::MakeSpan(results), 0, seconds.count()});
}

}  // namespace kiln::runtime
