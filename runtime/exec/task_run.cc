#include "runtime/exec/task_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/exec/move_boxes.h"

namespace kiln::runtime {
namespace {

// A guess at how fast memory is copied, for the queue's choice of a thread.
constexpr uint64_t kCopiedBytesPerNs = 4;

}  // namespace

void TaskRun::Start(std::shared_ptr<const Program> program, absl::Span<const hal::BufferSlice> shares,
                    const RunOptions& options, Executor executor, collective::Collectives* collectives,
                    TaskRunCallback callback) {
  if (program->is_family()) {
    if (absl::Status wanted = options.control.Check(); !wanted.ok()) return callback(std::move(wanted));
    auto sized = program->At(options.variables);
    if (!sized.ok()) return callback(std::move(sized).status());
    program = *std::move(sized);
  }
  if (absl::Status status = program->Check(shares, options.variables); !status.ok()) return callback(std::move(status));
  std::unique_ptr<TaskRun> run(new TaskRun(std::move(program), options, executor, collectives, std::move(callback)));
  if (absl::Status status = run->MakeSlices(shares); !status.ok()) return run->callback_(std::move(status));
  TaskRun* const started = run.release();
  // What another queue has yet to write may be a parameter; and a device that is busy
  // with something else for too long is better told of than waited for.
  collectives->WhenReady(started->program_->DistinctDevices(), started->control_,
                         [started](const absl::Status& status) { started->Begin(status); });
}

void TaskRun::Begin(absl::Status status) {
  if (status.ok() && start_ != nullptr) status = start_->Begin();
  {
    absl::MutexLock lock(&mutex_);
    first_error_ = status;
    const std::vector<ProgramTask>& tasks = program_->tasks();
    left_ = status.ok() ? tasks.size() : 0;
    for (uint32_t i = 0; i < left_; ++i) {
      waits_.push_back(tasks[i].waits_for);
      if (tasks[i].waits_for == 0) ready_.push(i);
    }
    draining_ = true;
  }
  Drain();
}

TaskRun::TaskRun(std::shared_ptr<const Program> program, const RunOptions& options, Executor executor,
                 collective::Collectives* collectives, TaskRunCallback callback)
    : program_(std::move(program)),
      control_(options.control),
      start_(options.start),
      variables_(options.variables.begin(), options.variables.end()),
      executor_(executor),
      collectives_(collectives),
      callback_(std::move(callback)),
      reports_(program_->collectives()) {}

absl::Status TaskRun::MakeSlices(absl::Span<const hal::BufferSlice> shares) {
  std::vector<std::shared_ptr<hal::Buffer>> arenas(program_->device_count());
  std::vector<hal::BufferSlice> results(program_->result_shares());
  for (const ProgramSlice& slice : program_->slices()) {
    hal::Allocator& allocator = program_->device(slice.device).allocator();
    switch (slice.space) {
      case v1::PlacedValue::PARAMETER: slices_.push_back(shares[slice.index]); break;
      case v1::PlacedValue::RESULT: {
        hal::BufferSlice& result = results[slice.index];
        if (result.buffer == nullptr) {
          KILN_ASSIGN_OR_RETURN(auto buffer, hal::AllocateFor(control_.account, allocator, slice.bytes,
                                                              hal::MemoryUse::kProgram, control_.domain));
          result = hal::BufferSlice::Whole(std::move(buffer));
        }
        slices_.push_back(result);
        break;
      }
      default: {
        std::shared_ptr<hal::Buffer>& arena = arenas[slice.device];
        if (arena == nullptr) {
          KILN_ASSIGN_OR_RETURN(arena,
                                hal::AllocateFor(control_.account, allocator, program_->arena_bytes()[slice.device],
                                                 hal::MemoryUse::kProgram, control_.domain));
        }
        slices_.push_back({arena, slice.offset, slice.bytes});
      }
    }
  }
  return absl::OkStatus();
}

void TaskRun::Drain() {
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

void TaskRun::Launch(uint32_t number) {
  const ProgramTask& task = program_->tasks()[number];
  if (task.kind == ProgramTask::Kind::kSegment) return LaunchSegment(task, number);
  if (task.kind == ProgramTask::Kind::kCollective) return LaunchCollective(*task.collective, number);
  hal::Queue& queue = program_->device(task.device).queue();
  queue.Submit(
      [this, &task, number] {
        absl::Status status = control_.Check();
        if (status.ok()) status = MoveBoxes(task, slices_);
        Done(number, status);
      },
      task.bytes / kCopiedBytesPerNs);
}

void TaskRun::LaunchSegment(const ProgramTask& task, uint32_t number) {
  absl::InlinedVector<hal::BufferSlice, 8> parameters, results;
  for (uint32_t slice : task.parameters) parameters.push_back(slices_[slice]);
  for (uint32_t slice : task.results) results.push_back(slices_[slice]);
  const std::vector<int64_t> variables = Program::VariablesOf(task, variables_);
  executor_.Run(task.program, parameters, {.control = control_, .results = results, .variables = variables},
                [this, number](const absl::StatusOr<RunResult>& result) { Done(number, result.status()); });
}

void TaskRun::LaunchCollective(const TaskCollective& task, uint32_t number) {
  collective::Request request;
  request.kind = task.kind;
  request.op = task.op;
  request.dtype = task.dtype;
  request.count = task.count;
  request.root = task.root;
  request.devices = task.devices;
  request.deterministic_order = program_->deterministic_order();
  const auto slice_of = [this](uint32_t slice) {
    hal::BufferSlice memory = slices_[slice];
    memory.bytes = program_->slices()[slice].bytes;
    return memory;
  };
  for (uint32_t slice : task.inputs) request.inputs.push_back(slice_of(slice));
  for (uint32_t slice : task.outputs) request.outputs.push_back(slice_of(slice));
  collectives_->Run(std::move(request), control_, [this, &task, number](const absl::StatusOr<collective::Report>& ran) {
    if (ran.ok()) reports_[task.index] = {task.kind, task.count * collective::ItemBytes(task.dtype), *ran};
    Done(number, ran.status());
  });
}

void TaskRun::MarkDone(uint32_t task) {
  for (uint32_t dependent : program_->tasks()[task].dependents) {
    if (--waits_[dependent] == 0) ready_.push(dependent);
  }
  --left_;
}

void TaskRun::Done(uint32_t task, const absl::Status& status) {
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

void TaskRun::Finish() {
  const std::unique_ptr<TaskRun> self(this);
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = first_error_;
  }
  if (!status.ok()) return callback_(std::move(status));
  TaskRunResult result;
  for (const ProgramValue& value : program_->results()) {
    for (uint32_t slice : value.slices) result.results.push_back(slices_[slice]);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
  result.device_seconds = seconds.count();
  result.collectives = std::move(reports_);
  callback_(std::move(result));
}

}  // namespace kiln::runtime
