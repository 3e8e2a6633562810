#include "runtime/exec/executable_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/error.h"

namespace kiln::runtime {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

ExecutableRun::ExecutableRun(const Plan& plan)
    : parameters_(plan.parameters.size()),
      results_(plan.results.size()),
      prepared_(plan.preparations.size()),
      variables_(plan.variables.size()),
      pointers_(plan.operands.size()) {}

void ExecutableRun::Submit(std::shared_ptr<LoadedExecutable> program, absl::Span<const hal::BufferSlice> parameters,
                           const RunOptions& options, RuntimeObserver* observer, RunCallback callback) {
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] = parameters[i];
  if (!options.results.empty()) {
    for (size_t i = 0; i < results_.size(); ++i) results_[i] = options.results[i];
  }
  std::copy(options.variables.begin(), options.variables.end(), variables_.begin());
  control_ = options.control;
  start_ = options.start;
  observer_ = observer;
  callback_ = std::move(callback);
  program_ = std::move(program);
  submitted_ = Clock::now();
  // Nothing of this object is touched after Submit: it may have run already.
  hal::Queue& queue = program_->device().queue();
  const uint64_t estimate_ns = program_->estimate_ns();
  queue.Submit(static_cast<hal::Work*>(this), estimate_ns);
}

void ExecutableRun::Run() {
  const Clock::time_point started = Clock::now();
  control_.BeginWork();
  uint32_t launches = 0;
  // A run that waited too long in the queue ends here.
  absl::Status status = control_.Check();
  control_ = hal::Limited(program_->device(), control_);
  if (status.ok()) status = MakeResults();
  if (status.ok() && start_ != nullptr) status = start_->Begin();
  if (status.ok()) MarkChanged();
  if (status.ok()) status = Prepare();
  if (status.ok()) status = FillPointers();
  if (status.ok()) status = Walk(launches);
  status.Update(program_->device().FinishLaunches());
  control_.EndWork();
  const Clock::duration ran = Clock::now() - started - absl::ToChronoNanoseconds(control_.away());
  arena_charge_.Release();

  const auto took_ns = static_cast<uint64_t>(std::chrono::nanoseconds(ran).count());
  status.ok() ? program_->estimate_.Observe(took_ns) : program_->estimate_.ObserveStopped(took_ns);
  const double queue_seconds = Seconds(started - submitted_);
  const double device_seconds = times_.All(program_->device(), Seconds(ran));
  Owe(control_.account, Quota::kDeviceSeconds, device_seconds);
  if (observer_ != nullptr) {
    observer_->OnRun({program_->device().name(), queue_seconds, device_seconds, launches, status.code(),
                      control_.account, control_.trace});
  }
  // Whoever is called may tell a client, who then has room for as much memory as this run has used.
  for (hal::BufferSlice& slice : parameters_) slice = hal::BufferSlice();
  RunCallback callback = std::move(callback_);
  if (status.ok()) {
    callback(RunResult{absl::MakeSpan(results_), queue_seconds, device_seconds});
  } else {
    callback(std::move(status));
  }
  Recycle();
}

absl::Status ExecutableRun::MakeResults() {
  const Plan& plan = program_->plan();
  for (size_t i = 0; i < results_.size(); ++i) {
    const PlanResult& result = plan.results[i];
    if (result.alias != PlanResult::kFresh) {
      results_[i] = parameters_[result.alias];
    } else if (results_[i].buffer == nullptr) {
      KILN_ASSIGN_OR_RETURN(
          std::shared_ptr<hal::Buffer> buffer,
          hal::AllocateFor(control_.account, program_->device().allocator(), result.shape.BytesAt(variables_),
                           hal::MemoryUse::kProgram, control_.domain));
      results_[i] = hal::BufferSlice::Whole(std::move(buffer));
    }
  }
  return absl::OkStatus();
}

void ExecutableRun::MarkChanged() {
  const Plan& plan = program_->plan();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (plan.parameters[i].written) parameters_[i].buffer->Changed();
  }
  for (const hal::BufferSlice& result : results_) result.buffer->Changed();
}

absl::Status ExecutableRun::Prepare() {
  const Plan& plan = program_->plan();
  for (size_t i = 0; i < prepared_.size(); ++i) {
    const PlanPreparation& preparation = plan.preparations[i];
    const hal::BufferSlice& from = parameters_[preparation.parameter];
    const hal::DerivedKey key = {preparation.how, from.offset};
    prepared_[i] = from.buffer->FindDerived(key);
    if (prepared_[i] != nullptr) continue;
    // It may be of somebody else's weights.
    KILN_ASSIGN_OR_RETURN(prepared_[i],
                          hal::AllocateFor(control_.account, program_->device().allocator(), preparation.bytes,
                                           hal::MemoryUse::kProgram, MemoryDomain::kNobody));
    // Its operands are the parameter and itself, in whatever order.
    absl::InlinedVector<void*, 4> pointers;
    for (uint32_t j = 0; j < preparation.step.operand_count; ++j) {
      const bool itself = plan.operands[preparation.step.first_operand + j].space == PlanOperand::Space::kPrepared;
      pointers.push_back(itself ? prepared_[i]->device_data() : from.device_data());
    }
    KILN_RETURN_IF_ERROR(program_->module_->Launch(preparation.step.kernel, pointers.data(), control_));
    from.buffer->KeepDerived(key, prepared_[i]);
  }
  return absl::OkStatus();
}

absl::Status ExecutableRun::FillPointers() {
  const Plan& plan = program_->plan();
  char* arena = nullptr;
  if (plan.arena_bytes != 0) {
    // The memory stays for the next run; that this one uses it counts as long as it does.
    KILN_ASSIGN_OR_RETURN(arena_charge_, Hold(control_.account, Quota::kDeviceBytes, plan.arena_bytes));
    const absl::StatusOr<void*> scratch =
        program_->device().Scratch(plan.arena_bytes, control_.account, control_.domain);
    if (!scratch.ok()) return hal::AsPayerMayKnow(control_.account, scratch.status());
    arena = static_cast<char*>(*scratch);
  }
  char* const constants =
      program_->constants_ == nullptr ? nullptr : static_cast<char*>(program_->constants_->device_data());
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const PlanOperand& operand = plan.operands[i];
    switch (operand.space) {
      case PlanOperand::Space::kParameter: pointers_[i] = parameters_[operand.index].device_data(); break;
      case PlanOperand::Space::kResult: pointers_[i] = results_[operand.index].device_data(); break;
      case PlanOperand::Space::kArena: pointers_[i] = arena + operand.offset; break;
      case PlanOperand::Space::kConstants: pointers_[i] = constants + operand.offset; break;
      case PlanOperand::Space::kPrepared: pointers_[i] = prepared_[operand.index]->device_data(); break;
      case PlanOperand::Space::kVariable:
        std::memcpy(&pointers_[i], &variables_[operand.index], sizeof(int64_t));
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status ExecutableRun::Walk(uint32_t& launches) {
  if (observer_ == nullptr || !observer_->WantsLaunches(control_.trace)) {
    return program_->module_->LaunchAll(program_->plan().steps, pointers_.data(), control_, launches);
  }
  for (const PlanStep& step : program_->plan().steps) {
    if (launches != 0) {
      control_.GiveWay();
      KILN_RETURN_IF_ERROR(control_.Check());
    }
    const OwnTime time(control_);
    KILN_RETURN_IF_ERROR(program_->module_->Launch(step.kernel, pointers_.data() + step.first_operand, control_));
    KILN_RETURN_IF_ERROR(program_->device().FinishLaunches());
    ++launches;
    const double seconds = times_.One(program_->device(), time.seconds());
    observer_->OnLaunch({program_->device().name(), program_->plan().kernel_names[step.kernel], seconds,
                         control_.account, control_.trace});
  }
  return absl::OkStatus();
}

void ExecutableRun::Recycle() {
  for (hal::BufferSlice& slice : results_) slice = hal::BufferSlice();
  for (std::shared_ptr<hal::Buffer>& made : prepared_) made = nullptr;
  // The last reference may be this one, and then the pool goes with it, and this
  // object with the pool: at the end of the function, after all else.
  const std::shared_ptr<LoadedExecutable> program = std::move(program_);
  program->pool_->Return(std::unique_ptr<ExecutableRun>(this));
}

std::unique_ptr<ExecutableRun> ExecutableRunPool::Take() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<ExecutableRun> run = std::move(idle_.back());
      idle_.pop_back();
      return run;
    }
  }
  return std::make_unique<ExecutableRun>(*plan_);
}

void ExecutableRunPool::Return(std::unique_ptr<ExecutableRun> run) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(run));
}

}  // namespace kiln::runtime
