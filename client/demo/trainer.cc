#include "client/demo/trainer.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace kiln::demo {

using client::Arguments;
using client::DeviceBuffer;
using client::HostTensor;
using client::Program;
using client::RunOptions;
using client::RunResults;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(client::Client& client, const TrainOptions& options,
                                                         const Digits& train) {
  if (options.batch < 1 || options.batch > train.count()) {
    return absl::InvalidArgumentError("a batch must have at least one image, and no more than there are");
  }
  StepOptions step_options;
  step_options.images = train.count();
  step_options.batch = options.batch;
  KILN_ASSIGN_OR_RETURN(v1::Graph loss, Loss(options.architecture, step_options));
  const client::GradientOptions by_weights{.wrt_slots = WeightSlots(options.architecture), .include_results = true};
  KILN_ASSIGN_OR_RETURN(const v1::GradientResponse gradient, client.Gradient(std::move(loss), by_weights));
  KILN_ASSIGN_OR_RETURN(v1::Graph graph, TrainingStep(options.architecture, step_options, gradient));
  KILN_ASSIGN_OR_RETURN(Program step, client.Compile(std::move(graph)));
  std::unique_ptr<Trainer> trainer(new Trainer(client, options, train.count(), std::move(step)));

  const auto put = [&](uint32_t slot, absl::StatusOr<DeviceBuffer> buffer) -> absl::Status {
    KILN_RETURN_IF_ERROR(buffer.status());
    if (trainer->buffers_.size() <= slot) trainer->buffers_.resize(slot + 1);
    trainer->buffers_[slot] = *std::move(buffer);
    trainer->arguments_.Set(slot, trainer->buffers_[slot]);
    return absl::OkStatus();
  };
  KILN_RETURN_IF_ERROR(put(kImages, client.Upload(HostTensor::Of({train.count(), 8, 8}, train.images))));
  KILN_RETURN_IF_ERROR(put(kLabels, client.Upload(HostTensor::Of({train.count()}, train.labels))));
  // By size: a step takes a part of it, which a buffer with a shape would refuse.
  KILN_RETURN_IF_ERROR(put(kRows, client.Allocate(static_cast<uint64_t>(train.count()) * sizeof(int32_t))));
  KILN_RETURN_IF_ERROR(put(kStats, client.Allocate(v1::FLOAT32, {2})));
  uint32_t slot = kFirstWeight;
  for (const HostTensor& weight : InitialWeights(options.architecture, options.seed)) {
    KILN_RETURN_IF_ERROR(put(slot, client.Upload(weight)));
    KILN_RETURN_IF_ERROR(put(slot + 1, client.Allocate(v1::FLOAT32, weight.shape)));
    slot += 2;
  }
  return trainer;
}

absl::Status Trainer::BeginEpoch() {
  const HostTensor order = HostTensor::Of({images_}, Shuffled(images_, random_));
  return client_.Write(buffers_[kRows], order.bytes);
}

absl::Status Trainer::Step(int64_t epoch, int64_t step) {
  const double done =
      static_cast<double>(epoch * steps_per_epoch() + step) / static_cast<double>(options_.epochs * steps_per_epoch());
  const double rate = options_.rate * 0.5 * (1 + std::cos(done * 3.141592653589793));
  arguments_.Set(kRate, HostTensor::Scalar(static_cast<float>(rate)));
  arguments_.Set(kRows, buffers_[kRows], static_cast<uint64_t>(step * options_.batch) * sizeof(int32_t));
  KILN_RETURN_IF_ERROR(Run(step_, arguments_, {}).status());
  ++steps_;
  ++counted_steps_;
  return absl::OkStatus();
}

absl::StatusOr<Statistics> Trainer::TakeStatistics() {
  KILN_ASSIGN_OR_RETURN(const HostTensor sums, client_.Download(buffers_[kStats]));
  KILN_RETURN_IF_ERROR(client_.Fill(buffers_[kStats].Ref(), absl::string_view("\0", 1)));
  const std::vector<float> values = sums.Values<float>();
  const double steps = static_cast<double>(std::exchange(counted_steps_, 0));
  return Statistics{values[0] / steps, values[1] / (steps * static_cast<double>(options_.batch))};
}

absl::StatusOr<std::vector<int32_t>> Trainer::Predict(const Digits& digits) {
  KILN_ASSIGN_OR_RETURN(v1::Graph graph, Prediction(options_.architecture, digits.count()));
  KILN_ASSIGN_OR_RETURN(const Program program, client_.Compile(std::move(graph)));
  Arguments arguments;
  arguments.Set(kImages, HostTensor::Of({digits.count(), 8, 8}, digits.images));
  for (uint32_t slot = kFirstWeight; slot < buffers_.size(); slot += 2) arguments.Set(slot, buffers_[slot]);
  KILN_ASSIGN_OR_RETURN(const RunResults run, Run(program, arguments, {.results = v1::RESULT_INLINE}));
  if (run.results.size() != 1) return absl::InternalError("a prediction without result");
  return run.results[0].tensor.Values<int32_t>();
}

absl::StatusOr<RunResults> Trainer::Run(const Program& program, const Arguments& arguments, const RunOptions& options) {
  KILN_ASSIGN_OR_RETURN(RunResults run, program.Run(arguments, options));
  ++executes_;
  cached_executes_ += run.from_cache ? 1 : 0;
  return run;
}

int64_t Trainer::naive_bytes_per_step() const {
  int64_t bytes = static_cast<int64_t>(step_.graph().ByteSizeLong()) + options_.batch * (kPixels + 1);
  for (uint32_t slot = kFirstWeight; slot < buffers_.size(); ++slot)
    bytes += static_cast<int64_t>(buffers_[slot].bytes());
  return bytes;
}

}  // namespace kiln::demo
