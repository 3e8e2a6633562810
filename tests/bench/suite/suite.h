// Benches that stand beside their peers: a suite is a table of rows, a row is one
// computation as Kiln compiles it and as others do it, and all of them take turns
// in one process on the same arguments and into the same result.
//
// Absolute times of a shared machine drift by half and more; ratios of parties that
// take turns hold. A turn is a burst of a few milliseconds, after calls that are not
// counted, so that each finds its caches and threads as its own last call left them.
// Of all calls the 5th percentile is the "best", and the median stands beside it. Turns go on until
// each party's quickest call has come in three turns, or there were four times as many as asked for.
//
// Before anything is timed each party's values are compared: with those of the
// first peer that is there, or, in a smoke test, with the interpreter's.
#ifndef KILN_TESTS_BENCH_SUITE_SUITE_H_
#define KILN_TESTS_BENCH_SUITE_SUITE_H_

#include <functional>
#include <string>
#include <vector>

#include "client/cpp/ops.h"
#include "tests/bench/suite/team.h"

namespace kiln::bench {

// An argument: uniform in [low, high), rounded toward zero where the dtype is one of integers, or with `below`
// int32 in [0, below).
struct Input {
  client::Shape shape;
  float low = -1, high = 1;
  int32_t below = 0;
  v1::DType dtype = v1::FLOAT32;
};

// Where a row's arguments and its result lie, for whoever computes it.
struct Operands {
  std::vector<const float*> in;  // arguments of other dtypes as what they are not
  float* out;
  Team& team;  // as many threads as the row may use
};

// A computation that is bound to its operands. Empty if the peer is not there.
struct Call {
  std::function<void()> run;
  std::function<void()> publish;  // if there: puts the result into `out`, which `run` did not
  explicit operator bool() const { return run != nullptr; }
};

struct Peer {
  std::string name;
  std::function<Call(const Operands&)> bind;
};

struct Row {
  std::string name;
  // What it takes at the least. The table shows GF/s; without flops Gelem/s; without
  // elements either GB/s.
  double flops = 0, elements = 0, bytes = 0;
  std::vector<Input> inputs;
  client::Tensor (*program)(const std::vector<client::Tensor>& inputs);
  std::vector<Peer> peers;
  double tolerance = 1e-4;               // of the result's largest magnitude
  std::vector<uint32_t> constants = {};  // inputs that stay the same over many calls: weights
  bool fast_math = false;
};

// The bench's whole main(). `rows` makes the table: small enough for the interpreter
// if `smoke`. Exits with 1 where a value is wrong.
int RunSuite(int argc, char** argv, const char* name, std::vector<Row> (*rows)(bool smoke));

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_SUITE_SUITE_H_
