// Trains a model on a server. After the first step the server has everything: the
// data, the weights, the momenta and the program; a step sends a hash, handles and a
// learning rate.
#ifndef KILN_CLIENT_DEMO_TRAINER_H_
#define KILN_CLIENT_DEMO_TRAINER_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/demo/digits.h"
#include "client/demo/model.h"

namespace kiln::demo {

struct TrainOptions {
  Architecture architecture = Architecture::kConv;
  int64_t epochs = 6;
  int64_t batch = 32;
  // Falls from here to 0 along half a cosine.
  double rate = 0.1;
  uint64_t seed = 1;
};

// Mean over the steps since the last time it was asked for.
struct Statistics {
  double loss = 0;
  double accuracy = 0;
};

class Trainer {
 public:
  // Uploads the data and the first weights and compiles the step.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(client::Client& client, const TrainOptions& options,
                                                         const Digits& train);

  int64_t steps_per_epoch() const { return images_ / options_.batch; }
  // Shuffles the order in which the images come.
  absl::Status BeginEpoch();
  // `step` counts from 0 within the epoch.
  absl::Status Step(int64_t epoch, int64_t step);
  absl::StatusOr<Statistics> TakeStatistics();
  // What the model now sees in each image.
  absl::StatusOr<std::vector<int32_t>> Predict(const Digits& digits);

  int64_t executes() const { return executes_; }
  int64_t cached_executes() const { return cached_executes_; }
  int64_t steps() const { return steps_; }
  // What a step would send if the server kept nothing: the graph, the batch, weights
  // and momenta.
  int64_t naive_bytes_per_step() const;
  const client::Program& program() const { return step_; }

 private:
  Trainer(client::Client& client, const TrainOptions& options, int64_t images, client::Program step)
      : client_(client), options_(options), images_(images), step_(std::move(step)), random_(options.seed) {}
  absl::StatusOr<client::RunResults> Run(const client::Program& program, const client::Arguments& arguments,
                                         const client::RunOptions& options);

  client::Client& client_;
  const TrainOptions options_;
  const int64_t images_;
  client::Program step_;
  std::mt19937_64 random_;

  // By slot; kRows is the order of the whole epoch, of which a step takes a part.
  std::vector<client::DeviceBuffer> buffers_;
  client::Arguments arguments_;
  int64_t executes_ = 0;
  int64_t cached_executes_ = 0;
  int64_t steps_ = 0;
  // How many steps the statistics on the device stand for.
  int64_t counted_steps_ = 0;
};

}  // namespace kiln::demo

#endif  // KILN_CLIENT_DEMO_TRAINER_H_
