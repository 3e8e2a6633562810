// Hostile programs as text: random LINEARs and mutants of them, and random graphs
// of tensors, rendered in every C-like language. Each is text, or refused with the
// node at fault. Those in C that have no races are compiled, many at once, and give
// what the interpreter gives.
//
//   --seconds=N   how long (4)
//   --seed=S      the first program; each later one is the next number
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/source.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/program_maker.h"
#include "tests/fuzz/random_graph.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/c_engine.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

double seconds = 4;
uint64_t first_seed = 0;
volatile uint64_t seed_now = 0;

constexpr uint64_t kBatch = 30;  // programs to a call of the C compiler

// A fault ends the process: first say of which program.
void SayWhich(int signal) {
  char text[64];
  const int length = std::snprintf(text, sizeof(text), "\nsignal %d in the program of seed %llu\n", signal,
                                   static_cast<unsigned long long>(seed_now));
  if (length > 0 && write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
  std::signal(signal, SIG_DFL);  // the instruction runs again, and ends it
}

class Texts {
 public:
  void TryBatch(uint64_t first, uint64_t count) {
    CEngine engine;
    std::vector<std::pair<uint64_t, MadeProgram>> added;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      seed_now = seed;
      Random random(seed);
      ProgramTaste taste;
      taste.race_free = seed % 3 != 0;
      taste.size = static_cast<int>(random.In(4, 24));
      MadeProgram made = MakeProgram(seed, taste);
      const bool mutant = seed % 5 == 4;
      if (mutant) {
        for (int64_t edits = random.In(1, 3); edits > 0; --edits) MutateGraph(made.graph, random);
      }
      const bool is_c = Render(seed, made.graph, mutant);
      if (::testing::Test::HasFailure()) return;
      if (!is_c || mutant || !taste.race_free) continue;
      ASSERT_TRUE(engine.Add(made.graph, Limited()).ok());
      added.emplace_back(seed, std::move(made));
    }
    const absl::Status built = engine.Build();
    ASSERT_TRUE(built.ok()) << "seeds " << first << " and following: " << built;
    for (size_t i = 0; i < added.size(); ++i) {
      const auto& [seed, made] = added[i];
      seed_now = seed;
      const auto want = RunInterpreted(made.graph, made.arguments);
      ASSERT_TRUE(want.ok()) << "seed " << seed << ": " << want.status();
      const auto got = engine.Run(i, made.arguments);
      ASSERT_TRUE(got.ok()) << "seed " << seed << ": " << got.status();
      ASSERT_EQ(CompareOutcomes(*got, *want, Tolerance()), "") << "seed " << seed << "\n" << PrintGraph(made.graph);
      ++compared;
    }
  }

  void TryGraphs(uint64_t first, uint64_t count) {
    CEngine engine;
    std::vector<std::pair<uint64_t, RandomGraph>> added;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      seed_now = seed;
      RandomGraph made = MakeRandomGraph(seed);
      const bool mutant = seed % 4 == 3;
      if (mutant) {
        Random random(seed);
        for (int64_t edits = random.In(1, 3); edits > 0; --edits) MutateGraph(made.graph, random);
      }
      const bool is_c = Render(seed, made.graph, mutant);
      if (::testing::Test::HasFailure()) return;
      if (!is_c || mutant) continue;
      ASSERT_TRUE(engine.Add(made.graph, Limited()).ok());
      added.emplace_back(seed, std::move(made));
    }
    const absl::Status built = engine.Build();
    ASSERT_TRUE(built.ok()) << "graphs " << first << " and following: " << built;
    for (size_t i = 0; i < added.size(); ++i) {
      const auto& [seed, made] = added[i];
      seed_now = seed;
      const auto arguments = RandomArguments(made.graph, seed);
      ASSERT_TRUE(arguments.ok()) << arguments.status();
      const auto want = RunInterpreted(made.graph, *arguments);
      const auto got = engine.Run(i, *arguments);
      ASSERT_TRUE(want.ok() && got.ok()) << "graph " << seed << ": " << want.status() << got.status();
      ASSERT_EQ(got->results.size(), want->results.size());
      for (size_t k = 0; k < want->results.size(); ++k) {
        EXPECT_EQ(CompareTensors(got->results[k], want->results[k], made.results[k]), "")
            << "result " << k << " of graph " << seed << "\n"
            << PrintGraph(made.graph);
      }
      compiler::InterpResult got_written, want_written;
      got_written.written = got->written;
      want_written.written = want->written;
      EXPECT_EQ(CompareOutcomes(got_written, want_written, {0, /*zero_signs=*/false}), "") << "graph " << seed << "\n"
                                                                                           << PrintGraph(made.graph);
      ++compared;
    }
  }

  uint64_t rendered = 0, refused = 0, compared = 0;

 private:
  // What an honest server would let run for hours has no place in a fuzzer.
  static compiler::Options Limited() {
    compiler::Options options = ExactOptions();
    options.limits.max_work = 200'000'000;
    return options;
  }

  // In all languages; whether there is a text in C.
  bool Render(uint64_t seed, const v1::Graph& graph, bool mutant) {
    bool is_text = false;
    for (const char* language : {"cuda", "hip", "opencl", "metal", "c"}) {
      const auto text = compiler::RenderSource(graph, language, Limited());
      is_text = text.ok();
      ++(is_text ? rendered : refused);
      if (is_text) continue;
      const auto detail = DetailOf(text.status());
      const bool fits = detail.has_value() && detail->code() != v1::INTERNAL_FAULT &&
                        (mutant || detail->code() == v1::GRAPH_TOO_LARGE ||
                         (detail->code() == v1::UNSUPPORTED_OP && !detail->op().empty()));
      EXPECT_TRUE(fits) << "seed " << seed << " in " << language << ": " << text.status() << "\n" << PrintGraph(graph);
    }
    return is_text;
  }
};

TEST(ProgramTexts, AreTheirPrograms) {
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SayWhich);
  Texts texts;
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  uint64_t seed = first_seed;
  for (; absl::Now() < end && !::testing::Test::HasFailure(); seed += kBatch) {
    texts.TryBatch(seed, kBatch);
    texts.TryGraphs(seed, kBatch / 3);
  }
  std::printf("seeds %llu to %llu: %llu texts, %llu programs in C against the interpreter, %llu refused\n",
              static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(seed) - 1,
              static_cast<unsigned long long>(texts.rendered), static_cast<unsigned long long>(texts.compared),
              static_cast<unsigned long long>(texts.refused));
  EXPECT_GT(texts.compared, 0u);
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--seconds=") && absl::SimpleAtod(flag, &kiln::testing::seconds)) continue;
    if (absl::ConsumePrefix(&flag, "--seed=") && absl::SimpleAtoi(flag, &kiln::testing::first_seed)) continue;
    std::fprintf(stderr, "texts takes --seconds=N and --seed=S, not %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
