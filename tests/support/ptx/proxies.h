// Two ways to shared memory: threads' own loads and stores take one, the copy engine and the tensor cores the other.
// What a thread stored is seen by the other way only after the thread has fenced (fence.proxy.async).
#ifndef KILN_TESTS_SUPPORT_PTX_PROXIES_H_
#define KILN_TESTS_SUPPORT_PTX_PROXIES_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::testing::ptx {

class Proxies {
 public:
  // Nothing was stored. No bytes: nothing is watched.
  void Begin(uint64_t bytes, size_t threads) {
    stored_.assign(bytes, {});
    fences_.assign(threads, 0);
  }
  void Fence(uint32_t thread) { ++fences_[thread]; }
  void Store(uint32_t thread, uint64_t begin, uint32_t bytes) {
    if (begin >= stored_.size()) return;
    for (uint64_t i = begin; i < begin + bytes; ++i) stored_[i] = {thread + 1, fences_[thread]};
  }
  // The thread that stored to one of these bytes and has not fenced since.
  std::optional<uint32_t> Unfenced(uint64_t begin, uint32_t bytes) const {
    if (begin >= stored_.size()) return std::nullopt;
    for (uint64_t i = begin; i < begin + bytes; ++i) {
      const Stored& last = stored_[i];
      if (last.thread_plus_one != 0 && fences_[last.thread_plus_one - 1] == last.fences)
        return last.thread_plus_one - 1;
    }
    return std::nullopt;
  }

 private:
  struct Stored {
    uint32_t thread_plus_one = 0, fences = 0;
  };
  std::vector<Stored> stored_;
  std::vector<uint32_t> fences_;
};

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_PROXIES_H_
