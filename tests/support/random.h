// Random numbers that are the same on every machine and in every run: a test
// that fails prints its seed, and the seed is enough.
#ifndef KILN_TESTS_SUPPORT_RANDOM_H_
#define KILN_TESTS_SUPPORT_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace kiln::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15u + 1) {}

  uint64_t Bits() { return engine_(); }
  // In [0, n); n > 0.
  uint64_t Below(uint64_t n) { return Bits() % n; }
  // In [low, high].
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  template <typename T>
  const T& Pick(const std::vector<T>& all) {
    return all[Below(all.size())];
  }
  template <typename T>
  T Pick(std::initializer_list<T> all) {
    return all.begin()[Below(all.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_RANDOM_H_
