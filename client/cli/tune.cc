// kiln tune: a search for faster schedules, watched.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/table.h"
#include "client/cli/text/tuning_plot.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  uint32_t beam = 0;
  uint32_t budget_ms = 0;
  std::string plot;
  bool json = false;
};

// On a terminal a bar, which each candidate moves; else a line for each kernel.
class Progress {
 public:
  Progress() : bar_(isatty(fileno(stderr)) != 0) {}

  void Tell(const v1::TuneResponse::Candidate& candidate) {
    SearchedKernel& kernel = kernels_[candidate.kernel()];
    kernel.name = candidate.name();
    kernel.first_micros = candidate.first_micros();
    kernel.best_micros = candidate.best_micros();
    ++kernel.tried;
    if (candidate.fault().empty()) kernel.micros.push_back(candidate.micros());
    ++candidates_;
    if (!bar_) {
      if (kernel.tried == 1) std::fprintf(stderr, "searching %s\n", candidate.name().c_str());
      return;
    }
    // How many kernels there are is known; how many candidates each will have is not.
    constexpr size_t kWidth = 24;
    const size_t full = kWidth * kernels_.size() / std::max<size_t>(candidate.kernels(), kernels_.size());
    std::fprintf(stderr, "\r[%s%s] %zu of %u kernels, %zu candidates; %.32s: %s, was %s\033[K",
                 std::string(full, '=').c_str(), std::string(kWidth - full, ' ').c_str(), kernels_.size(),
                 candidate.kernels(), candidates_, candidate.name().c_str(), MicrosText(kernel.best_micros).c_str(),
                 MicrosText(kernel.first_micros).c_str());
  }

  void End() const {
    if (bar_ && candidates_ > 0) std::fputc('\n', stderr);
  }

  const std::map<uint32_t, SearchedKernel>& kernels() const { return kernels_; }
  std::vector<SearchedKernel> Searched() const {
    std::vector<SearchedKernel> searched;
    for (const auto& [number, kernel] : kernels_) searched.push_back(kernel);
    return searched;
  }

 private:
  const bool bar_;
  size_t candidates_ = 0;
  std::map<uint32_t, SearchedKernel> kernels_;
};

absl::Status WritePlot(const std::vector<SearchedKernel>& kernels, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << PlotSvg(kernels);
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  std::fprintf(stderr, "%s\n", path.c_str());
  return absl::OkStatus();
}

// A row for each kernel, the dearest first, whose times times calls add up to those of the program.
std::vector<Row> RowsOf(const Progress& progress, const v1::TuneResponse::Done& done) {
  std::vector<Row> rows = {{"kernel", "calls", "before", "after", "faster", "tried", "schedule"}};
  for (const v1::TuneResponse::Times& times : done.times()) {
    // A server that counts otherwise is no reason to fall.
    if (times.kernel() >= static_cast<uint32_t>(done.kernels_size())) continue;
    const v1::Kernel& kernel = done.kernels(static_cast<int>(times.kernel()));
    const auto searched = progress.kernels().find(times.kernel());
    const size_t tried = searched == progress.kernels().end() ? 0 : searched->second.tried;
    rows.push_back(
        {kernel.name(), absl::StrCat(times.calls()), MicrosText(times.first_micros()), MicrosText(times.best_micros()),
         absl::StrFormat("%.2f", times.first_micros() / times.best_micros()), absl::StrCat(tried), kernel.schedule()});
  }
  return rows;
}

void PrintFound(const Progress& progress, const v1::TuneResponse::Done& done) {
  const std::vector<SearchedKernel> searched = progress.Searched();
  const std::vector<Row> rows = RowsOf(progress, done);
  if (rows.size() > 1) std::printf("%s\n", TableText(rows).c_str());
  for (const SearchedKernel& kernel : searched) {
    if (kernel.micros.size() > 1) std::printf("%s\n%s\n", kernel.name.c_str(), PlotText(kernel).c_str());
  }
  if (searched.empty()) std::printf("no kernel of this program takes schedules (docs/tuning.md says which do)\n");
  const auto hash = GraphHash::FromBytes(done.graph_hash());
  std::printf("hash       %s\nkernels    %s, were %s\ncandidates %u%s\n",
              hash.has_value() ? hash->Hex().c_str() : "none", MicrosText(done.best_micros()).c_str(),
              MicrosText(done.first_micros()).c_str(), done.candidates(),
              done.out_of_time() ? "; the time ran out before the search had ended (--budget_ms)" : "");
}

absl::Status Tune(Cli& cli, const Flags& flags) {
  v1::TuneRequest request;
  request.set_device(cli.device);
  KILN_RETURN_IF_ERROR(ReadUnlessHash(cli, flags.graph));
  if (!IsHashPrefix(flags.graph)) *request.mutable_graph() = cli.graph;
  request.mutable_options()->set_beam(flags.beam);
  request.mutable_options()->set_beam_budget_ms(flags.budget_ms);
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  if (!request.has_graph()) {
    KILN_ASSIGN_OR_RETURN(*request.mutable_graph_hash(), FindHash(*client, flags.graph));
  }
  Progress progress;
  const auto done = client->Tune(request, [&](const v1::TuneResponse::Candidate& candidate) {
    progress.Tell(candidate);
    return true;
  });
  progress.End();
  KILN_RETURN_IF_ERROR(done.status());
  if (flags.json) {
    std::fputs(MessageJson(*done).c_str(), stdout);
    return flags.plot.empty() ? absl::OkStatus() : WritePlot(progress.Searched(), flags.plot);
  }
  PrintFound(progress, *done);
  return flags.plot.empty() ? absl::OkStatus() : WritePlot(progress.Searched(), flags.plot);
}

}  // namespace

void AddTune(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("tune", "Search faster schedules for a program's kernels, on the device");
  command->footer(
      "The server tries schedules, run by run between other clients' work, and keeps the\n"
      "program with the fastest, under the same hash: whoever runs it gets them, and so does\n"
      "a later server with the same --program_cache_dir. Values do not change, but for the\n"
      "order in which floats are added up.\n"
      "\n"
      "Examples:\n"
      "  kiln tune 6f0c2b                         a program that the server has (kiln programs)\n"
      "  kiln tune model.uop --budget_ms 60000    a graph, for a minute\n"
      "  kiln tune model.uop --beam 8             from more schedules in each round\n"
      "  kiln tune model.uop --plot search.svg    time against candidates, as a picture\n"
      "  kiln explain model.uop                   what it has come to: schedules of all kernels");
  command->add_option("graph", flags->graph, kGraphOrHash)->required();
  command->add_option("--beam", flags->beam, "Schedules that a round goes on from; 0 is 4")->capture_default_str();
  command->add_option("--budget_ms", flags->budget_ms, "Time for the whole program; 0 is the server's default")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "What was found as JSON: kiln.v1.TuneResponse.Done; hashes are base64");
  command->add_option("--plot", flags->plot, "Write time against candidates as SVG into this file");
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Tune(running, *flags); }; });
}

}  // namespace kiln::cli
