// The laws of the compiler, checked on what a seed makes:
//
//   every rule, and all rules together: the same value for every assignment,
//     nothing left to do the second time, bounds that hold, no costlier result;
//   reductions of loops: the same sums and maxima when a loop collapses;
//   every pass, of tensors and of kernels: the same memory afterwards.
#ifndef KILN_TESTS_FUZZ_LAWS_H_
#define KILN_TESTS_FUZZ_LAWS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/interp/interp.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/compare.h"

namespace kiln::testing {

class LawFuzzer {
 public:
  // Each returns what was broken, with all that it takes to see why; or nothing.
  std::string CheckExpression(uint64_t seed);
  std::string CheckReduce(uint64_t seed);
  std::string CheckPasses(uint64_t seed);
  // The same of any tensor graph; `results` says how far its results may be apart.
  std::string CheckPassesOn(const v1::Graph& wire, const compiler::HostTensors& arguments,
                            const std::vector<Tolerance>& results);

  // How often each rule applied and each pass changed something, by name; every
  // rule is there, met or not.
  const std::map<std::string, int64_t>& met() const { return met_; }

  LawFuzzer();

 private:
  std::map<std::string, int64_t> met_;
};

// Whether no generator here makes what the rule is about.
bool IsOutsideTheFuzz(const std::string& rule);

}  // namespace kiln::testing

#endif  // KILN_TESTS_FUZZ_LAWS_H_
