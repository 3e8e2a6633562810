#include "runtime/exec/sequence_run.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace kiln::runtime {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

SequenceRun::SequenceRun(std::shared_ptr<const Sequence> sequence, absl::Span<const hal::BufferSlice> buffers,
                         const RunOptions& options, RuntimeObserver* observer, RunCallback callback)
    : sequence_(std::move(sequence)),
      buffers_(buffers.begin(), buffers.end()),
      integers_(options.variables.begin(), options.variables.end()),
      control_(options.control),
      start_(options.start),
      observer_(observer),
      callback_(std::move(callback)) {}

void SequenceRun::Submit(std::shared_ptr<const Sequence> sequence, absl::Span<const hal::BufferSlice> buffers,
                         const RunOptions& options, RuntimeObserver* observer, RunCallback callback) {
  hal::Queue& queue = sequence->device().queue();
  const uint64_t estimate_ns = sequence->estimate().ns();
  auto* run = new SequenceRun(std::move(sequence), buffers, options, observer, std::move(callback));
  run->submitted_ = Clock::now();
  // Nothing of it is touched after Submit: it may have run already.
  queue.Submit(static_cast<hal::Work*>(run), estimate_ns);
}

void SequenceRun::Run() {
  const std::unique_ptr<SequenceRun> self(this);
  const Clock::time_point started = Clock::now();
  uint32_t launches = 0;
  // A run that waited too long in the queue ends here.
  absl::Status status = control_.Check();
  if (status.ok()) status = sequence_->CheckSharing(buffers_, integers_);
  if (status.ok() && start_ != nullptr) status = start_->Begin();
  if (status.ok()) MarkChanged();
  if (status.ok()) status = FillPointers();
  if (status.ok()) status = Walk(launches);
  status.Update(sequence_->device().FinishLaunches());
  const Clock::time_point ended = Clock::now();

  if (status.ok()) {
    sequence_->estimate().Record(static_cast<uint64_t>(std::chrono::nanoseconds(ended - started).count()));
  }
  const double queue_seconds = Seconds(started - submitted_);
  const double device_seconds = times_.All(sequence_->device(), Seconds(ended - started));
  if (observer_ != nullptr) {
    observer_->OnRun({sequence_->device().name(), queue_seconds, device_seconds, launches, status.code()});
  }
  if (status.ok()) {
    callback_(RunResult{{}, queue_seconds, device_seconds});
  } else {
    callback_(std::move(status));
  }
}

void SequenceRun::MarkChanged() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (sequence_->buffers()[i].written) buffers_[i].buffer->Changed();
  }
}

absl::Status SequenceRun::FillPointers() {
  char* arena = nullptr;
  if (sequence_->arena_bytes() != 0) {
    KILN_ASSIGN_OR_RETURN(void* scratch, sequence_->device().Scratch(sequence_->arena_bytes()));
    arena = static_cast<char*>(scratch);
  }
  pointers_.resize(sequence_->operands().size());
  void** pointer = pointers_.data();
  for (const SequenceOperand& operand : sequence_->operands()) {
    switch (operand.space) {
      case SequenceOperand::Space::kFixed: std::memcpy(pointer, &operand.offset, sizeof(uint64_t)); break;
      case SequenceOperand::Space::kBuffer:
        *pointer = static_cast<char*>(buffers_[operand.index].device_data()) + operand.offset;
        break;
      case SequenceOperand::Space::kArena: *pointer = arena + operand.offset; break;
      case SequenceOperand::Space::kInteger: std::memcpy(pointer, &integers_[operand.index], sizeof(int64_t)); break;
    }
    ++pointer;
  }
  return absl::OkStatus();
}

absl::Status SequenceRun::Walk(uint32_t& launches) {
  const bool timed = observer_ != nullptr && observer_->WantsLaunches();
  const absl::Status status =
      timed ? WalkTimed(launches) : sequence_->launch_list().Run(pointers_.data(), control_, launches);
  // That the device is lost is no step's affair.
  if (status.ok() || !sequence_->device().health().ok()) return status;
  return AtStep(status, sequence_->StepOf(launches));
}

absl::Status SequenceRun::WalkTimed(uint32_t& launches) {
  for (const hal::Launch& launch : sequence_->launches()) {
    if (launches != 0) KILN_RETURN_IF_ERROR(control_.Check());
    const Clock::time_point started = Clock::now();
    KILN_RETURN_IF_ERROR(launch.module->Launch(launch.kernel, pointers_.data() + launch.first_operand, control_));
    KILN_RETURN_IF_ERROR(sequence_->device().FinishLaunches());
    const Plan& plan = sequence_->steps()[sequence_->StepOf(launches)].program->plan();
    ++launches;
    const double seconds = times_.One(sequence_->device(), Seconds(Clock::now() - started));
    observer_->OnLaunch({sequence_->device().name(), plan.kernel_names[launch.kernel], seconds});
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime
