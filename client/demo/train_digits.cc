// The demo: a small network learns handwritten digits on a Kiln server.
//
// It starts a kilnd of its own (or takes a running one), trains, shows how well the
// network reads 360 digits it has never seen, and what travelled to do so. Exits with
// 0 only if accuracy, cache and server did as they should.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "client/cpp/client.h"
#include "client/demo/digits.h"
#include "client/demo/report.h"
#include "client/demo/server_process.h"
#include "client/demo/trainer.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::demo {
namespace {

constexpr int64_t kHeldOut = 360;
constexpr double kMinAccuracy = 0.97;
constexpr double kMinHitRate = 0.99;
// Steps between two looks at the statistics.
constexpr int64_t kShowEvery = 16;

struct Flags {
  std::string kilnd;
  std::string server;
  std::string device;
  std::string data = "client/demo/data";
  std::string model = "conv";
  TrainOptions train;
};

struct Trained {
  double seconds = 0;
  // Executes after the first epoch, and those of them that found their program.
  int64_t later_executes = 0;
  int64_t later_hits = 0;
};

absl::StatusOr<Trained> TrainAll(Trainer& trainer, const TrainOptions& options) {
  Trained trained;
  Progress progress(options.epochs, trainer.steps_per_epoch(), isatty(STDOUT_FILENO) != 0);
  const absl::Time begin = absl::Now();
  int64_t first_executes = 0, first_hits = 0;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    KILN_RETURN_IF_ERROR(trainer.BeginEpoch());
    Statistics epoch_sum;
    for (int64_t step = 0; step < trainer.steps_per_epoch(); ++step) {
      KILN_RETURN_IF_ERROR(trainer.Step(epoch, step));
      const int64_t done = step + 1;
      const bool last = done == trainer.steps_per_epoch();
      if (!last && done % kShowEvery != 0) continue;
      KILN_ASSIGN_OR_RETURN(const Statistics recent, trainer.TakeStatistics());
      const double weight = static_cast<double>(done % kShowEvery == 0 ? kShowEvery : done % kShowEvery);
      epoch_sum.loss += recent.loss * weight;
      epoch_sum.accuracy += recent.accuracy * weight;
      progress.Show(epoch, done, {epoch_sum.loss / done, epoch_sum.accuracy / done});
    }
    if (epoch == 0) {
      first_executes = trainer.executes();
      first_hits = trainer.cached_executes();
    }
  }
  trained.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  trained.later_executes = trainer.executes() - first_executes;
  trained.later_hits = trainer.cached_executes() - first_hits;
  return trained;
}

void PrintTraffic(const client::Client& client, const Trainer& trainer) {
  uint64_t sent = 0, received = 0;
  for (const auto& [name, traffic] : client.traffic()) {
    sent += traffic.sent_bytes;
    received += traffic.received_bytes;
  }
  const double steps = static_cast<double>(trainer.steps());
  const double naive = static_cast<double>(trainer.naive_bytes_per_step()) * steps;
  const client::Traffic execute = client.traffic()["Execute"];
  absl::PrintF("sent              %s in all, %s a step; received %s\n", BytesText(static_cast<double>(sent)),
               BytesText(static_cast<double>(execute.sent_bytes) / static_cast<double>(execute.calls)),
               BytesText(static_cast<double>(received)));
  absl::PrintF("a naive client    %s: graph, weights, momenta and batch with every step (%.0f times as much)\n",
               BytesText(naive), naive / static_cast<double>(sent));
  for (const auto& [name, traffic] : client.traffic()) {
    absl::PrintF("  %-14s %6d calls  sent %9s  received %9s\n", name, traffic.calls,
                 BytesText(static_cast<double>(traffic.sent_bytes)),
                 BytesText(static_cast<double>(traffic.received_bytes)));
  }
}

absl::Status Run(client::Client& client, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const Digits digits, LoadDigits(flags.data));
  std::mt19937_64 random(flags.train.seed);
  const Split split = SplitDigits(digits, kHeldOut, random);
  const Digits train = WithShiftedCopies(split.train);
  KILN_ASSIGN_OR_RETURN(const v1::ListProgramsResponse before, client.ListPrograms());
  KILN_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(client, flags.train, train));
  const v1::CompileResponse& compiled = trainer->program().compiled();
  absl::PrintF("%d images to train on (%d and copies of them moved by a pixel), %d held out\n", train.count(),
               split.train.count(), split.held_out.count());
  absl::PrintF("one training step is a graph of %d nodes, compiled to %d kernels in %.0f ms%s\n",
               trainer->program().graph().nodes_size(), compiled.kernels(),
               static_cast<double>(compiled.compile_us()) / 1000, compiled.from_cache() ? " (earlier)" : "");

  KILN_ASSIGN_OR_RETURN(const Trained trained, TrainAll(*trainer, flags.train));
  KILN_ASSIGN_OR_RETURN(const std::vector<int32_t> guesses, trainer->Predict(split.held_out));
  KILN_ASSIGN_OR_RETURN(const v1::ListProgramsResponse after, client.ListPrograms());

  const double accuracy = Accuracy(split.held_out.labels, guesses);
  const double hit_rate = trained.later_executes == 0
                              ? 1.0
                              : static_cast<double>(trained.later_hits) / static_cast<double>(trained.later_executes);
  absl::PrintF("\n%s\n", ConfusionTable(split.held_out.labels, guesses));
  absl::PrintF("held-out accuracy %.4f on %d images\n", accuracy, split.held_out.count());
  absl::PrintF("speed             %d steps in %.1f s: %.0f steps/s, %.0f images/s\n", trainer->steps(), trained.seconds,
               trainer->steps() / trained.seconds, trainer->steps() * flags.train.batch / trained.seconds);
  absl::PrintF("compiles          %d; executes %d, of which found in the cache %d; after the first epoch %.2f%%\n",
               after.compiles() - before.compiles(), trainer->executes(), trainer->cached_executes(), 100 * hit_rate);
  PrintTraffic(client, *trainer);

  if (accuracy < kMinAccuracy) {
    return absl::InternalError(absl::StrFormat("accuracy %.4f is below %.2f", accuracy, kMinAccuracy));
  }
  if (hit_rate < kMinHitRate) {
    return absl::InternalError(
        absl::StrFormat("%.4f of executes were cache hits, fewer than %.2f", hit_rate, kMinHitRate));
  }
  return absl::OkStatus();
}

absl::Status Main(const Flags& flags) {
  std::unique_ptr<ServerProcess> process;
  std::string address = flags.server;
  if (address.empty()) {
    KILN_ASSIGN_OR_RETURN(process, ServerProcess::Start(flags.kilnd));
    address = process->address();
    absl::PrintF("started %s on %s\n", flags.kilnd, address);
  }
  absl::Status result;
  {
    KILN_ASSIGN_OR_RETURN(const auto client, client::Client::Connect(address, {.device = flags.device}));
    result = Run(*client, flags);
  }
  if (process != nullptr && result.ok()) {
    result = process->Stop();
    if (result.ok()) absl::PrintF("kilnd stopped and exited with 0\n");
  }
  return result;
}

}  // namespace
}  // namespace kiln::demo

int main(int argc, char** argv) {
  kiln::demo::Flags flags;
  CLI::App app("Trains a small network on 1,797 handwritten digits through a Kiln server.");
  app.footer(
      "Examples:\n"
      "  train_digits --kilnd=bazel-bin/server/kilnd      start a server, train, stop it\n"
      "  train_digits --server=localhost:7437 --epochs=2  use one that runs\n"
      "  train_digits --kilnd=... --device=CUDA:0         on a GPU");
  auto* kilnd = app.add_option("--kilnd", flags.kilnd, "The server to start, by path");
  auto* server = app.add_option("--server", flags.server, "A running server, host:port");
  kilnd->excludes(server);
  app.add_option("--device", flags.device,
                 "Of the server's: CPU:0, CUDA:0, HIP:0 (the first; `kiln devices` lists them)");
  app.add_option("--data", flags.data, "Folder of digits_images.npy and digits_labels.npy")->capture_default_str();
  app.add_option("--model", flags.model, "conv (3x3 convolution, dense) or mlp (dense, dense)")
      ->check(CLI::IsMember({"conv", "mlp"}))
      ->capture_default_str();
  app.add_option("--epochs", flags.train.epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", flags.train.batch, "Images a step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rate", flags.train.rate, "First learning rate")->capture_default_str();
  app.add_option("--seed", flags.train.seed, "Of the split, the shuffling and the first weights")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (flags.kilnd.empty() && flags.server.empty()) {
    std::fprintf(stderr, "train_digits: say which server: --kilnd=PATH or --server=HOST:PORT (--help has examples)\n");
    return 2;
  }
  flags.train.architecture = *kiln::demo::ArchitectureByName(flags.model);
  const absl::Status status = kiln::demo::Main(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "train_digits: %s\n", status.ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  return 1;
}
