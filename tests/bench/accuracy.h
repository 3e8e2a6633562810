// How far from the truth a function of the CPU target is: in units in the last
// place of the true value's binade, so that a correctly rounded result is at
// most 0.5 away.
#ifndef KILN_TESTS_BENCH_ACCURACY_H_
#define KILN_TESTS_BENCH_ACCURACY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/v1/graph.pb.h"

namespace kiln::bench {

struct Function {
  std::string name;
  bool wide;                          // float64, else float32
  int arguments;                      // 1 or 2
  v1::Graph (*graph)(int64_t count);  // of `count` elements in each argument
  long double (*truth)(long double, long double);
  double bound;  // ulp that docs/ir.md allows; 0: none is stated
};

// docs/ir.md's functions, and those that the C++ client composes of them.
const std::vector<Function>& Functions();

// Between the value and the truth. Infinite where one is NaN, infinite or a zero
// of the other sign and the other is not.
double UlpError(bool wide, double got, long double truth);

// The greatest error found, with FMA contraction and without, and where.
struct Finding {
  uint64_t samples = 0;
  double worst[2] = {0, 0};
  double at[2][2] = {};  // the arguments
};

// `share` of one in how many float32 patterns are tried; 1: all of them. For
// float64 and functions of two arguments: a stratified sample of about 2^32 /
// share / 64, every exponent and sign in turn, special values, and near misses.
Finding Examine(const Function& function, uint64_t share, int threads);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_ACCURACY_H_
