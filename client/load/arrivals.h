// When requests are due: a schedule that nothing the server does can change.
//
// That is what makes a load open: clients of the real world do not agree to wait until a slow
// server has answered the others. A generator that sends the next request when the last has
// come back sends fewer just while the server is slow, and its percentiles leave out the
// requests that would have suffered most (coordinated omission).
#ifndef KILN_CLIENT_LOAD_ARRIVALS_H_
#define KILN_CLIENT_LOAD_ARRIVALS_H_

#include <cstdint>
#include <random>

namespace kiln::load {

enum class Spacing {
  kPoisson,   // at random, as clients that do not know of each other: exponential gaps
  kConstant,  // all gaps alike
};

// The same seed gives the same schedule. One thread at a time.
class Arrivals {
 public:
  // `rate` a second, more than 0.
  Arrivals(double rate, Spacing spacing, uint64_t seed);

  // When the next one is due, in nanoseconds since the beginning.
  uint64_t due_ns() const { return due_ns_; }
  // Goes on to the one after it, which may be due at the same time.
  void Advance();

 private:
  const double gap_ns_;
  const Spacing spacing_;
  std::mt19937_64 random_;
  double exact_ns_;  // not rounded, so that roundings do not add up
  uint64_t passed_ = 0;
  uint64_t due_ns_;
};

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_ARRIVALS_H_
