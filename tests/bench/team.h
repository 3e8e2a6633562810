// A few threads that share one loop: what peers without threads of their own run
// on, and as much of OpenMP as these benches need. A worker spins for some 20 µs
// after a loop and then sleeps, so that it takes no core from whoever is next.
#ifndef KILN_TESTS_BENCH_TEAM_H_
#define KILN_TESTS_BENCH_TEAM_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace kiln::bench {

// Used by one thread at a time.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // body(begin, end) for as many even parts of [0, count) as there are threads, each
  // beginning at a multiple of `grain`; returns when all have returned.
  using Body = std::function<void(int64_t begin, int64_t end)>;
  void For(int64_t count, const Body& body, int64_t grain = 1);

 private:
  void RunPart(int part) const;
  void Work(int part);

  const Body* body_ = nullptr;
  int64_t count_ = 0, grain_ = 1;
  std::atomic<uint32_t> round_ = 0;
  std::atomic<int> left_ = 0;
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_TEAM_H_
