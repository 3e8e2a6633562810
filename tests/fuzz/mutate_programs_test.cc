// Damaged programs, of every age: each is refused with a reason, by the importer or the
// spec, or runs in the interpreter, and none crashes anything.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/ir/graph.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/entry.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/program_maker.h"

namespace kiln::testing {
namespace {

// KILN_FUZZ_FIRST and KILN_FUZZ_MUTANTS choose others.
constexpr uint64_t kMutants = 3000;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Tally {
  int read = 0, legal = 0, ran = 0;
  std::map<v1::ErrorCode, int> refused;
};

void ExpectReason(const absl::Status& status, const v1::Graph& graph, Tally& tally) {
  const auto detail = DetailOf(status);
  ASSERT_TRUE(detail.has_value()) << status << "\n" << PrintGraph(graph);
  EXPECT_NE(detail->code(), v1::INTERNAL_FAULT) << status << "\n" << PrintGraph(graph);
  ++tally.refused[detail->code()];
}

// Zeros for all that the program names, or nothing if that would be too much.
std::optional<compiler::HostTensors> Zeros(compiler::UOp* root) {
  compiler::HostTensors tensors;
  int64_t bytes = 0;
  for (compiler::UOp* uop : compiler::Toposort(root)) {
    if (uop->op() != compiler::Op::PARAM) continue;
    const int64_t size = compiler::NumElements(uop->shape()) * compiler::ItemSize(uop->dtype());
    if ((bytes += size) > 1 << 20) return std::nullopt;
    tensors[uop->arg_as<compiler::BufferArg>().slot] = {uop->dtype(), uop->shape(),
                                                        std::string(static_cast<size_t>(size), '\0')};
  }
  return tensors;
}

void Drive(const v1::Graph& graph, Tally& tally) {
  compiler::Graph nodes;
  const auto root = compiler::FromWire(graph, compiler::Limits(), nodes);
  if (!root.ok()) return ExpectReason(root.status(), graph, tally);
  ++tally.read;
  EXPECT_TRUE(HashGraph(graph).ok()) << PrintGraph(graph);
  // What was let in survives the way out and in again.
  compiler::Graph second;
  const v1::Graph core = compiler::ToWire(*root);
  const auto again = compiler::FromWire(core, compiler::Limits(), second);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << PrintGraph(graph) << "\n" << PrintGraph(core);
  EXPECT_EQ(compiler::ToWire(*again).SerializeAsString(), core.SerializeAsString()) << PrintGraph(graph);

  if (compiler::LevelOf(*root) != compiler::EntryLevel::kProgram) return;
  const auto needs = compiler::VerifyProgram(*root, compiler::Limits(), &nodes);
  if (!needs.ok()) return ExpectReason(needs.status(), graph, tally);
  ++tally.legal;
  const auto arguments = Zeros(*root);
  if (!arguments.has_value()) return;
  const auto result = compiler::Interpret(*root, *arguments, {1 << 24, 200'000});
  if (!result.ok()) return ExpectReason(result.status(), graph, tally);
  ++tally.ran;
}

TEST(MutatePrograms, EveryMutantGetsAnAnswer) {
  const std::vector<ProgramCase> cases = ProgramCases();
  Tally tally;
  const uint64_t first = FromEnvironment("KILN_FUZZ_FIRST", 0);
  const uint64_t end = first + FromEnvironment("KILN_FUZZ_MUTANTS", kMutants);
  for (uint64_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 2'000'000);
    v1::Graph graph =
        random.OneIn(4) ? MakeProgram(random.Below(200), {random.OneIn(2), 4}).graph : random.Pick(cases).graph;
    const int64_t edits = random.OneIn(3) ? random.In(2, 4) : 1;
    for (int64_t i = 0; i < edits; ++i) MutateGraph(graph, random);
    Drive(graph, tally);
    if (::testing::Test::HasFailure()) return;
  }
  if (end - first < kMutants) return;
  // Many get far, and many kinds of fault are told apart.
  EXPECT_GT(tally.read, 500);
  EXPECT_GT(tally.legal, 300);
  EXPECT_GT(tally.ran, 250);
  for (v1::ErrorCode code :
       {v1::UNSUPPORTED_OP, v1::WRONG_SOURCE_COUNT, v1::BAD_ARGUMENT, v1::DTYPE_MISMATCH, v1::SHAPE_MISMATCH}) {
    EXPECT_GT(tally.refused[code], 0) << v1::ErrorCode_Name(code);
  }
}

}  // namespace
}  // namespace kiln::testing
