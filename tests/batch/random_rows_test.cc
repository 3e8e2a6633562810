// Random programs on rows of a variable number. Where the proof allows it, the program on the rows of two
// callers, one after the other, gives each what it would have got alone, bit for bit, as the interpreter
// runs it. What mixes rows on purpose is never allowed.
//   KILN_FUZZ_FIRST and KILN_FUZZ_GRAPHS choose other seeds.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "tests/batch/row_maker.h"
#include "tests/batch/scheduled.h"
#include "tests/support/arguments.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using compiler::HostTensors;

constexpr int64_t kTokensGiven = 3;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

compiler::Batching BatchingOf(const v1::Graph& graph) { return Scheduled(graph).BatchingOf(kBatch); }

// Arguments of both callers, of one after the other, and of each alone.
struct Calls {
  HostTensors both, first, second;
};

// Those whose size grows with `rows` are cut.
Calls Cut(const v1::Graph& graph, uint64_t seed, int64_t first, int64_t second) {
  const auto arguments = [&](int64_t rows) {
    return *RandomArguments(graph, seed, {{kBatch, rows}, {kTokens, kTokensGiven}});
  };
  Calls calls{arguments(first + second), arguments(first), arguments(second)};
  for (const auto& [slot, whole] : calls.both) {
    const size_t size = whole.bytes.size(), mine = calls.first.at(slot).bytes.size();
    const bool varies = mine != size;
    calls.first.at(slot).bytes = whole.bytes.substr(0, mine);
    calls.second.at(slot).bytes = varies ? whole.bytes.substr(mine) : whole.bytes;
  }
  return calls;
}

// What differs between the rows of `both` and those of each alone. Results that grow are compared by rows, others
// whole.
std::string Difference(const v1::Graph& graph, uint64_t seed, int64_t first, int64_t second) {
  const Calls calls = Cut(graph, seed, first, second);
  const auto run = [&](const HostTensors& arguments, int64_t rows) {
    return RunInterpreted(graph, arguments, {{kBatch, rows}, {kTokens, kTokensGiven}});
  };
  const auto both = run(calls.both, first + second), a = run(calls.first, first), b = run(calls.second, second);
  for (const auto* result : {&both, &a, &b}) {
    if (!result->ok()) return std::string(result->status().message());
  }
  for (size_t i = 0; i < both->results.size(); ++i) {
    const std::string &whole = both->results[i].bytes, &x = a->results[i].bytes, &y = b->results[i].bytes;
    const bool shared = x.size() == whole.size();
    if (shared ? whole != x || whole != y : whole != x + y) return absl::StrCat("result ", i, " differs");
  }
  return "";
}

TEST(RandomRows, WhatTheProofAllowsGivesEachCallerItsOwnRows) {
  const uint64_t begin = FromEnvironment("KILN_FUZZ_FIRST", 0), count = FromEnvironment("KILN_FUZZ_GRAPHS", 400);
  uint64_t allowed = 0, denied = 0, mixed = 0;
  for (uint64_t seed = begin; seed < begin + count; ++seed) {
    const v1::Graph graph = MakeRowGraph(seed, static_cast<int>(seed % 3), false);
    const compiler::Batching batching = BatchingOf(graph);
    const std::string difference = Difference(graph, seed, 1 + static_cast<int64_t>(seed % 2), 2);
    if (batching.row_wise()) {
      ++allowed;
      EXPECT_EQ(difference, "") << "seed " << seed << "\n" << PrintGraph(graph);
    } else {
      ++denied;
      mixed += difference.empty() ? 0 : 1;
    }
    if (HasFailure()) break;
  }
  std::printf("%d allowed, %d denied, of which %d mix rows\n", static_cast<int>(allowed), static_cast<int>(denied),
              static_cast<int>(mixed));
  // A proof that allows little proves little, and this test sees what mixes.
  EXPECT_GE(allowed, count / 3);
  EXPECT_GE(denied, count / 6);
  EXPECT_GE(mixed, denied / 2);
}

TEST(RandomRows, WhatMixesRowsInItsResultIsDenied) {
  const uint64_t begin = FromEnvironment("KILN_FUZZ_FIRST", 0), count = FromEnvironment("KILN_FUZZ_GRAPHS", 400);
  uint64_t allowed = 0;
  for (uint64_t seed = begin; seed < begin + count; ++seed) {
    const v1::Graph graph = MakeRowGraph(seed, 0, true);
    if (!BatchingOf(graph).row_wise()) continue;
    // Unless it comes to nothing, as where the rows that it mixes are all zeros.
    ++allowed;
    EXPECT_EQ(Difference(graph, seed, 1, 2), "") << "seed " << seed << "\n" << PrintGraph(graph);
    EXPECT_EQ(Difference(graph, seed, 3, 1), "") << "seed " << seed << "\n" << PrintGraph(graph);
    if (HasFailure()) break;
  }
  EXPECT_LE(allowed, count / 100);
}

}  // namespace
}  // namespace kiln::testing
