// Ten thousand damaged graphs through import and, where they are let in, all
// through the compiler: each gives a Status or a result, and none a crash.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/import/wire.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/random_graph.h"

namespace kiln::testing {
namespace {

// KILN_FUZZ_FIRST and KILN_FUZZ_MUTANTS choose others.
constexpr uint64_t kMutants = 10000;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
// Code generation takes the most time: one in this many gets it.
constexpr int kCpuEvery = 12;

v1::Target NullTarget() {
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  return target;
}

v1::Target PlainCpu() {
  v1::Target target;
  target.set_kind(v1::Target::CPU);
  target.set_triple("x86_64-unknown-linux-gnu");
  target.set_arch("x86-64-v3");
  target.mutable_tuning()->set_vector_bytes(32);
  target.mutable_tuning()->set_vector_registers(16);
  target.mutable_tuning()->set_cores(2);
  return target;
}

struct Tally {
  int malformed = 0, accepted = 0, compiled = 0, compiled_for_cpu = 0;
  std::map<v1::ErrorCode, int> refused;
};

// What the server does with a message, step by step.
void Drive(const std::string& bytes, Tally& tally) {
  v1::Graph graph;
  if (!graph.ParseFromString(bytes)) {
    ++tally.malformed;
    return;
  }
  const auto hash = HashGraph(graph);
  compiler::Graph nodes;
  const auto root = compiler::FromWire(graph, compiler::Limits(), nodes);
  if (!root.ok()) {
    const auto detail = DetailOf(root.status());
    ASSERT_TRUE(detail.has_value()) << root.status();
    EXPECT_NE(detail->code(), v1::INTERNAL_FAULT) << root.status();
    ++tally.refused[detail->code()];
  } else {
    ASSERT_TRUE(hash.ok()) << "accepted, but has no hash: " << hash.status() << "\n" << PrintGraph(graph);
    // What was let in survives the way out and in again.
    compiler::Graph again;
    const v1::Graph core = compiler::ToWire(*root);
    const auto second = compiler::FromWire(core, compiler::Limits(), again);
    ASSERT_TRUE(second.ok()) << second.status() << "\n" << PrintGraph(core);
    EXPECT_EQ(compiler::ToWire(*second).SerializeAsString(), core.SerializeAsString());
    ++tally.accepted;
  }
  const bool for_cpu = root.ok() && tally.accepted % kCpuEvery == 0;
  const auto executable = compiler::Compile(graph, for_cpu ? PlainCpu() : NullTarget(), compiler::Options());
  if (executable.ok()) {
    EXPECT_TRUE(root.ok());
    ++(for_cpu ? tally.compiled_for_cpu : tally.compiled);
  } else {
    const auto detail = DetailOf(executable.status());
    ASSERT_TRUE(detail.has_value()) << executable.status() << "\n" << PrintGraph(graph);
    EXPECT_NE(detail->code(), v1::INTERNAL_FAULT) << executable.status() << "\n" << PrintGraph(graph);
  }
}

TEST(MutateWire, EveryMutantGetsAnAnswer) {
  Tally tally;
  const uint64_t first = FromEnvironment("KILN_FUZZ_FIRST", 0);
  const uint64_t end = first + FromEnvironment("KILN_FUZZ_MUTANTS", kMutants);
  for (uint64_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 1'000'000);
    v1::Graph graph = MakeRandomGraph(random.Below(500)).graph;
    std::string bytes;
    if (seed % 4 != 0) {
      const int64_t edits = random.OneIn(3) ? random.In(2, 4) : 1;
      for (int64_t i = 0; i < edits; ++i) MutateGraph(graph, random);
      bytes = graph.SerializeAsString();
    } else {
      bytes = graph.SerializeAsString();
      MutateBytes(bytes, random);
    }
    Drive(bytes, tally);
    if (::testing::Test::HasFatalFailure()) return;
  }
  // The mutants reach deep: many are let in, and many kinds of fault are told apart.
  EXPECT_GT(tally.malformed, 100);
  EXPECT_GT(tally.accepted, 1000);
  EXPECT_GT(tally.compiled + tally.compiled_for_cpu, 500);
  EXPECT_GT(tally.compiled_for_cpu, 20);
  for (v1::ErrorCode code :
       {v1::SOURCE_OUT_OF_RANGE, v1::GRAPH_CYCLE, v1::UNKNOWN_OP, v1::UNSUPPORTED_OP, v1::WRONG_SOURCE_COUNT,
        v1::BAD_ARGUMENT, v1::DTYPE_MISMATCH, v1::SHAPE_MISMATCH, v1::SIZE_OVERFLOW}) {
    EXPECT_GT(tally.refused[code], 0) << v1::ErrorCode_Name(code);
  }
}

}  // namespace
}  // namespace kiln::testing
