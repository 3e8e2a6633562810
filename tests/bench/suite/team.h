// A few threads that share one loop: what peers without threads of their own run
// on, and as much of OpenMP as these benches need.
//
// A loop is cut into pieces. The caller takes them from the front and the workers
// from the back, so that a thread finds the same pieces in its cache each time, and
// yet a worker that the system lets wait holds nobody up. A worker spins for some
// 0.2 ms after a loop and then sleeps, so that it takes no core from whoever is next.
#ifndef KILN_TESTS_BENCH_SUITE_TEAM_H_
#define KILN_TESTS_BENCH_SUITE_TEAM_H_

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

  int threads() const { return threads_; }

  // body(begin, end) for pieces of [0, count), each beginning at a multiple of
  // `grain`, until all is done; in one piece where there is one thread.
  using Body = std::function<void(int64_t begin, int64_t end)>;
  void For(int64_t count, const Body& body, int64_t grain = 1);

 private:
  // Takes pieces until none is left.
  void Work(bool from_the_back);
  void WorkerMain();

  const int threads_;
  const uint32_t pieces_;
  const Body* body_ = nullptr;
  int64_t count_ = 0, grain_ = 1;
  // Of the present loop the pieces [front, back) are untaken: its number, front, back
  // in 32, 16 and 16 bits, so that nobody takes a piece of a loop that has ended.
  std::atomic<uint64_t> state_ = 0;
  std::atomic<uint32_t> round_ = 0;  // what workers wait on
  std::atomic<uint32_t> done_ = 0;
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_SUITE_TEAM_H_
