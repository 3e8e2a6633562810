#include "runtime/exec/sequence_run.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "runtime/exec/sequence_step.h"
#include "runtime/exec/task_run.h"

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
      collectives_(options.collectives),
      observer_(observer),
      callback_(std::move(callback)) {}

void SequenceRun::Submit(std::shared_ptr<const Sequence> sequence, absl::Span<const hal::BufferSlice> buffers,
                         const RunOptions& options, RuntimeObserver* observer, RunCallback callback) {
  auto* run = new SequenceRun(std::move(sequence), buffers, options, observer, std::move(callback));
  run->submitted_ = Clock::now();
  // Nothing of it is touched after this: it may have run already.
  if (run->sequence_->is_one_entry()) return run->BeginPart();
  // What another queue has yet to write may be read by any part.
  const absl::Span<hal::Device* const> devices = run->sequence_->devices();
  KILN_CHECK(run->collectives_ != nullptr);
  run->collectives_->WhenReady({devices.begin(), devices.end()}, run->control_, [run](const absl::Status& status) {
    run->started_ = Clock::now();
    run->status_ = status.ok() ? run->Start() : status;
    run->GoOn();
  });
}

void SequenceRun::GoOn() {
  if (turns_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  do {
    if (part_ == sequence_->parts().size() || !status_.ok()) return Finish();
    BeginPart();
  } while (turns_.fetch_sub(1, std::memory_order_acq_rel) != 1);
}

void SequenceRun::BeginPart() {
  if (part().list == nullptr) return RunOnSeveral(part());
  sequence_->device().queue().Submit(static_cast<hal::Work*>(this), sequence_->estimate().ns());
}

void SequenceRun::EndPart(const absl::Status& status) {
  status_ = status;
  ++part_;
  sequence_->is_one_entry() ? Finish() : GoOn();
}

void SequenceRun::RunOnSeveral(const SequencePart& part) {
  const SequenceStep& step = sequence_->steps()[part.step];
  const StepValues values = ValuesOf(step, integers_);
  std::vector<hal::BufferSlice> shares;
  for (size_t i = 0; i < step.parameters.size(); ++i) {
    const hal::BufferSlice& buffer = buffers_[step.parameters[i].buffer];
    shares.push_back(
        {buffer.buffer, buffer.offset + step.parameters[i].offset, step.multi->taken()[i].shape.BytesAt(values)});
  }
  TaskRun::Start(step.multi, shares, {.control = control_, .results = {}, .variables = values}, Executor(observer_),
                 collectives_, [this](absl::StatusOr<TaskRunResult> run) {
                   if (!run.ok()) return EndPart(AtStep(run.status(), this->part().step));
                   device_seconds_ += run->device_seconds;
                   launches_ += sequence_->steps()[this->part().step].multi->kernels();
                   EndPart(absl::OkStatus());
                 });
}

absl::Status SequenceRun::Start() {
  KILN_RETURN_IF_ERROR(sequence_->CheckSharing(buffers_, integers_));
  return start_ == nullptr ? absl::OkStatus() : start_->Begin();
}

void SequenceRun::Run() {
  const Clock::time_point started = Clock::now();
  const OwnTime time(control_);
  control_.BeginWork();
  const bool one_entry = sequence_->is_one_entry();
  if (one_entry) started_ = started;
  uint32_t launches = 0;
  // A run that waited too long in the queue ends here.
  absl::Status status = control_.Check();
  control_ = hal::Limited(sequence_->device(), control_);  // what the first part got stays
  if (status.ok() && one_entry) status = Start();
  if (status.ok()) MarkChanged();
  if (status.ok()) status = FillPointers();
  if (status.ok()) status = Walk(launches);
  status.Update(sequence_->device().FinishLaunches());
  control_.EndWork();
  arena_charge_.Release();
  const double seconds = time.seconds();
  launches_ += launches;
  const double device_seconds = times_.All(sequence_->device(), seconds);
  Owe(control_.account, Quota::kDeviceSeconds, device_seconds);
  device_seconds_ += device_seconds;
  own_seconds_ += device_seconds;
  seconds_ += seconds;
  EndPart(status);
}

void SequenceRun::Finish() {
  const std::unique_ptr<SequenceRun> self(this);
  const auto took_ns = static_cast<uint64_t>(seconds_ * 1e9);
  status_.ok() ? sequence_->estimate().Observe(took_ns) : sequence_->estimate().ObserveStopped(took_ns);
  const double queue_seconds = Seconds(started_ - submitted_);
  if (observer_ != nullptr) {
    observer_->OnRun({sequence_->device().name(), queue_seconds, own_seconds_, launches_, status_.code(),
                      control_.account, control_.trace});
  }
  if (status_.ok()) {
    callback_(RunResult{{}, queue_seconds, device_seconds_});
  } else {
    callback_(std::move(status_));
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
    KILN_ASSIGN_OR_RETURN(arena_charge_, Hold(control_.account, Quota::kDeviceBytes, sequence_->arena_bytes()));
    const absl::StatusOr<void*> scratch =
        sequence_->device().Scratch(sequence_->arena_bytes(), control_.account, control_.domain);
    if (!scratch.ok()) return hal::AsPayerMayKnow(control_.account, scratch.status());
    arena = static_cast<char*>(*scratch);
  }
  pointers_.resize(sequence_->operands().size());
  void** pointer = pointers_.data() + part().first_operand;
  for (const SequenceOperand& operand : sequence_->operands().subspan(part().first_operand, part().operands)) {
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
  const bool timed = observer_ != nullptr && observer_->WantsLaunches(control_.trace);
  const absl::Status status = timed ? WalkTimed(launches) : part().list->Run(pointers_.data(), control_, launches);
  // That the device is lost is no step's affair.
  if (status.ok() || !sequence_->device().health().ok()) return status;
  return AtStep(status, sequence_->StepOf(part().first_launch + launches));
}

absl::Status SequenceRun::WalkTimed(uint32_t& launches) {
  for (const hal::Launch& launch : sequence_->launches().subspan(part().first_launch, part().launches)) {
    if (launches != 0) {
      control_.GiveWay();
      KILN_RETURN_IF_ERROR(control_.Check());
    }
    const OwnTime time(control_);
    KILN_RETURN_IF_ERROR(launch.module->Launch(launch.kernel, pointers_.data() + launch.first_operand, control_));
    KILN_RETURN_IF_ERROR(sequence_->device().FinishLaunches());
    const Plan& plan = sequence_->steps()[sequence_->StepOf(part().first_launch + launches)].program->plan();
    ++launches;
    const double seconds = times_.One(sequence_->device(), time.seconds());
    observer_->OnLaunch(
        {sequence_->device().name(), plan.kernel_names[launch.kernel], seconds, control_.account, control_.trace});
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime
