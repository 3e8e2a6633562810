// Hostile programs: random LINEARs with wild indices, divisors, shifts and bounds,
// and mutants of them, compiled for this machine's CPU and run with guard pages
// round every buffer; every second one also watches its LOCAL and REG arrays. A
// program gets a Status or runs, inside its own memory; one without races gives what
// the interpreter gives.
//
//   --seconds=N   how long (4)
//   --seed=S      the first program; each later one is the next number
//   --least=N     a failure if fewer have run by then (1)
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "runtime/exec/loaded_executable.h"
#include "tests/fuzz/hostile_program.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/guarded_buffer.h"

namespace kiln::testing {
namespace {

double seconds = 4;
uint64_t first_seed = 0;
uint64_t least = 1;
volatile uint64_t seed_now = 0;

// How to shrink the program of `seed`, which shows what `flag` says.
std::string Shrink(const char* flag, uint64_t seed) {
  return absl::StrCat("to shrink it: bazel run //tests/reduce:kiln_reduce -- ", flag, " --random-program=", seed);
}

// A fault ends the process: first say of which program.
void SayWhich(int signal) {
  char text[160];
  const int length =
      std::snprintf(text, sizeof(text),
                    "\nsignal %d in the program of seed %llu; to shrink it:\n"
                    "bazel run //tests/reduce:kiln_reduce -- --crashes --random-program=%llu\n",
                    signal, static_cast<unsigned long long>(seed_now), static_cast<unsigned long long>(seed_now));
  if (length > 0 && write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
  std::signal(signal, SIG_DFL);  // the instruction runs again, and ends it
}

class Hostile {
 public:
  Hostile() {
    cpu_.set_buffers([this](runtime::hal::Device& device, uint64_t bytes) {
      auto buffer = std::make_shared<GuardedBuffer>(&device, bytes, side_);
      buffers_.push_back(buffer);
      return buffer;
    });
  }

  void Try(uint64_t seed) {
    const HostileProgram program_of_seed = MakeHostileProgram(seed);
    const MadeProgram& made = program_of_seed.made;
    const bool mutant = program_of_seed.mutant;
    compiler::Options options = ExactOptions();
    // What an honest server would let run for hours has no place in a fuzzer.
    options.limits.max_work = 200'000'000;
    // Arrays have no guard pages. The others are compiled as for everyone.
    options.guard_arrays = seed % 2 == 0;
    const auto program = cpu_.Load(made.graph, options);
    if (!program.ok()) {
      ++refused;
      const auto detail = DetailOf(program.status());
      EXPECT_TRUE(detail.has_value() && detail->code() != v1::INTERNAL_FAULT)
          << "seed " << seed << ": " << program.status() << "\n"
          << PrintGraph(made.graph) << Shrink("--fails", seed);
      // Too much work, or neighbours that a literal puts outside their storage.
      EXPECT_TRUE(mutant || detail->code() == v1::GRAPH_TOO_LARGE || detail->op() == "SHRINK")
          << "seed " << seed << ": " << program.status() << "\n"
          << PrintGraph(made.graph) << Shrink("--fails", seed);
      return;
    }
    const v1::Signature& signature = (*program)->signature();
    for (const auto& parameter : signature.parameters()) {
      const auto argument = made.arguments.find(parameter.slot());
      if (argument == made.arguments.end() || argument->second.bytes.size() != parameter.bytes()) return;
    }
    ++ran;
    const bool compare = program_of_seed.race_free && !mutant;
    const auto want = compare ? RunInterpreted(made.graph, made.arguments)
                              : absl::StatusOr<compiler::InterpResult>(absl::CancelledError(""));
    for (GuardedBuffer::Side side : {GuardedBuffer::Side::kEnd, GuardedBuffer::Side::kBegin}) {
      side_ = side;
      buffers_.clear();
      const auto got = cpu_.RunLoaded(*program, made.arguments);
      EXPECT_TRUE(got.ok()) << "seed " << seed << ": " << got.status();
      for (const auto& buffer : buffers_)
        EXPECT_TRUE(buffer->Intact()) << "seed " << seed << "\n" << PrintGraph(made.graph) << Shrink("--crashes", seed);
      if (!got.ok() || !compare) continue;
      ASSERT_TRUE(want.ok()) << "seed " << seed << ": " << want.status();
      EXPECT_EQ(CompareOutcomes(*got, *want, Tolerance()), "") << "seed " << seed << "\n"
                                                               << PrintGraph(made.graph) << Shrink("--differs", seed);
      ++compared;
    }
  }

  uint64_t ran = 0, refused = 0, compared = 0;

 private:
  CpuEngine cpu_;
  GuardedBuffer::Side side_ = GuardedBuffer::Side::kEnd;
  std::vector<std::shared_ptr<GuardedBuffer>> buffers_;
};

// The alternative of a LOAD out of range; a masked store that LLVM widened.
TEST(HostilePrograms, ThoseThatFailedOnce) {
  Hostile hostile;
  for (uint64_t seed : {58, 975}) hostile.Try(seed);
}

TEST(HostilePrograms, StayInTheirBuffers) {
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SayWhich);
  Hostile hostile;
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  uint64_t seed = first_seed;
  for (; absl::Now() < end && !::testing::Test::HasFailure(); ++seed) {
    seed_now = seed;
    hostile.Try(seed);
  }
  std::printf("seeds %llu to %llu: %llu ran, %llu of them twice against the interpreter, %llu refused\n",
              static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(seed) - 1,
              static_cast<unsigned long long>(hostile.ran), static_cast<unsigned long long>(hostile.compared / 2),
              static_cast<unsigned long long>(hostile.refused));
  EXPECT_GE(hostile.ran, least);
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--seconds=") && absl::SimpleAtod(flag, &kiln::testing::seconds)) continue;
    if (absl::ConsumePrefix(&flag, "--seed=") && absl::SimpleAtoi(flag, &kiln::testing::first_seed)) continue;
    if (absl::ConsumePrefix(&flag, "--least=") && absl::SimpleAtoi(flag, &kiln::testing::least)) continue;
    std::fprintf(stderr, "hostile takes --seconds=N, --seed=S and --least=N, not %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
