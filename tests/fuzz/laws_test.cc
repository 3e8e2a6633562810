// A short run of the law fuzzer; `./dev fuzz laws` runs it for as long as asked.
#include "tests/fuzz/laws.h"

#include <gtest/gtest.h>

namespace kiln::testing {
namespace {

using Law = std::string (LawFuzzer::*)(uint64_t seed);

void Check(Law law, uint64_t cases) {
  LawFuzzer fuzzer;
  for (uint64_t seed = 0; seed < cases; ++seed) {
    ASSERT_EQ((fuzzer.*law)(seed), "") << "seed " << seed;
  }
}

TEST(Laws, OfRules) {
  LawFuzzer fuzzer;
  for (uint64_t seed = 0; seed < 8000; ++seed) ASSERT_EQ(fuzzer.CheckExpression(seed), "") << "seed " << seed;
  // A law says something about a rule only if the rule is met.
  for (const auto& [rule, count] : fuzzer.met()) EXPECT_TRUE(count > 0 || IsOutsideTheFuzz(rule)) << rule;
}

TEST(Laws, OfReductions) { Check(&LawFuzzer::CheckReduce, 1500); }

TEST(Laws, OfPasses) { Check(&LawFuzzer::CheckPasses, 120); }

}  // namespace
}  // namespace kiln::testing
