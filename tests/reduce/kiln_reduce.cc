// kiln_reduce: the smallest graph that still shows a fault.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "client/cli/text/graph_file.h"
#include "tests/fuzz/hostile_program.h"
#include "tests/fuzz/random_graph.h"
#include "tests/reduce/edit.h"
#include "tests/reduce/reduce.h"
#include "tests/reduce/trial.h"
#include "tests/support/arguments.h"

namespace kiln::testing {
namespace {

constexpr char kTeaching[] = R"(Which fault, one of:
  --fails[=WHAT], --crashes, --hangs, --differs, --breaks-laws, --while=COMMAND

Examples:
  A compiler that refuses what it should take:
    kiln_reduce model.uop --fails="cannot be proved" -o small.uop
  Results that are not the interpreter's:
    kiln_reduce model.uop --differs --seed=3 -o small.uop
  What a fuzzer found, by the seed that it printed:
    kiln_reduce --random-graph=1234 --differs
    kiln_reduce --random-program=975 --crashes
  Anything else; the command gets a file, and exits with 0 while the fault is there:
    kiln_reduce model.uop --while='kiln_opt rangeify {} | grep -q "REDUCE.*MAX"'

A candidate that is not legal is asked about only if the whole graph is not legal
either. Progress goes to standard error, the smallest graph to standard output or
the file. Exit status: 0, or 1 if the whole graph has no such fault, or 2.)";

struct Source {
  std::string file;
  uint64_t random_graph = 0, random_program = 0;
  CLI::Option *by_graph = nullptr, *by_program = nullptr;
};

absl::StatusOr<v1::Graph> ReadGraph(const Source& source, Trial& trial) {
  absl::StatusOr<v1::Graph> graph;
  if (source.by_graph->count() > 0) {
    const RandomGraph made = MakeRandomGraph(source.random_graph);
    trial.seed = source.random_graph;
    trial.tolerance.zero_signs = false;
    for (const Tolerance& tolerance : made.results) trial.tolerance.ulp = std::max(trial.tolerance.ulp, tolerance.ulp);
    graph = made.graph;
  } else if (source.by_program->count() > 0) {
    MadeProgram made = MakeHostileProgram(source.random_program).made;
    trial.arguments = std::move(made.arguments);
    return made.graph;
  } else {
    graph = cli::ReadGraph(source.file);
  }
  if (graph.ok()) {
    // Kept for every candidate, so that what is taken away changes no other number.
    auto arguments = RandomArguments(*graph, trial.seed);
    if (arguments.ok()) trial.arguments = *std::move(arguments);
  }
  return graph;
}

int Main(int argc, char** argv) {
  CLI::App app{"Makes a graph as small as it can be while it still shows a fault."};
  Source source;
  Trial trial;
  std::string command, output;
  bool crashes = false, hangs = false, differs = false, breaks_laws = false, any_zero = false;
  auto* file = app.add_option("file", source.file, "A graph: .uop, .txtpb or .pb, or - for .uop on standard input");
  source.by_graph = app.add_option("--random-graph", source.random_graph,
                                   "Instead of a file: the graph of a seed of random_graphs_test");
  source.by_program = app.add_option("--random-program", source.random_program,
                                     "Instead of a file: the program of a seed of ./dev fuzz hostile");
  auto* fails = app.add_option("--fails", trial.wanted,
                               "The compiler refuses it, with this code or text (default: with the code of the whole)")
                    ->expected(0, 1);
  app.add_flag("--crashes", crashes, "It ends the process, or writes outside its buffers");
  app.add_flag("--hangs", hangs, "It takes longer than --timeout");
  app.add_flag("--differs", differs, "The CPU's results are not the interpreter's");
  app.add_flag("--breaks-laws", breaks_laws, "A pass changes what it computes (./dev fuzz laws)");
  app.add_option("--while", command, "COMMAND FILE exits with 0; {} in it is where the file goes");
  app.add_option("--seed", trial.seed, "Of the random arguments");
  app.add_option("--ulp", trial.tolerance.ulp, "How many units in the last place are no difference");
  app.add_flag("--any-zero", any_zero, "-0 is no other number than 0");
  app.add_option("--timeout", trial.seconds, "Seconds for one candidate (10)");
  app.add_option("--output,-o", output, "A file, instead of standard output");
  app.footer(kTeaching);
  CLI11_PARSE(app, argc, argv);

  if (any_zero) trial.tolerance.zero_signs = false;
  const bool asked_to_fail = fails->count() > 0;
  if (asked_to_fail + crashes + hangs + differs + breaks_laws + !command.empty() != 1 ||
      file->count() + source.by_graph->count() + source.by_program->count() != 1) {
    std::cerr << "kiln_reduce: one graph and one fault, please; --help shows examples\n";
    return 2;
  }
  trial.question = asked_to_fail ? Question::kFails
                   : crashes     ? Question::kCrashes
                   : hangs       ? Question::kHangs
                   : breaks_laws ? Question::kBreaksLaws
                                 : Question::kDiffers;
  const absl::StatusOr<v1::Graph> graph = ReadGraph(source, trial);
  if (!graph.ok() || !IsOrdered(*graph)) {
    std::cerr << "kiln_reduce: " << (graph.ok() ? "a source is not before its user" : graph.status().message()) << "\n";
    return 2;
  }
  std::string candidate_file = (std::filesystem::temp_directory_path() / "kiln_XXXXXX.uop").string();
  if (!command.empty()) {
    const int descriptor = mkstemps(candidate_file.data(), 4);
    if (descriptor < 0) {
      std::cerr << "kiln_reduce: cannot write " << candidate_file << "\n";
      return 2;
    }
    close(descriptor);
  }
  const Property property =
      command.empty() ? PropertyOf(*graph, trial) : PropertyOfCommand(command, candidate_file, trial.seconds);
  const Reduction reduction = Reduce(
      *graph, AmongLegal(*graph, property, trial.seconds),
      [&](const v1::Graph& now) { return DeriveTypesApart(now, 60); }, &std::cerr);
  if (!command.empty()) unlink(candidate_file.c_str());
  if (!reduction.held) {
    std::cerr << "kiln_reduce: the whole graph does not show this fault\n";
    return 1;
  }
  std::cerr << reduction.graph.nodes_size() << " nodes remain of " << graph->nodes_size() << "; " << reduction.asked
            << " candidates were asked about\n";
  if (output.empty()) {
    std::cout << PrintGraph(reduction.graph);
    return 0;
  }
  std::ofstream stream(output);
  stream << PrintGraph(reduction.graph);
  stream.close();
  if (stream) return 0;
  std::cerr << "kiln_reduce: cannot write " << output << "\n";
  return 2;
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) { return kiln::testing::Main(argc, argv); }
