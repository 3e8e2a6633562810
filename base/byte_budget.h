// Bytes that several together may keep: the connections of a port, copies under way. Tested by http_port_test.
#ifndef KILN_BASE_BYTE_BUDGET_H_
#define KILN_BASE_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>

namespace kiln {

// Safe from any thread.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t most) : most_(most) {}
  uint64_t most() const { return most_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

  // What one of them has; returned at its end. Not for several threads.
  class Share {
   public:
    // `budget` outlives it.
    explicit Share(ByteBudget* budget) : budget_(budget) {}
    ~Share() { Release(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Has `bytes` in all from now on, of which it keeps what it had; false, and nothing has changed, if that is more
    // than there is.
    bool GrowTo(uint64_t bytes) {
      if (bytes <= held_) return true;
      const uint64_t more = bytes - held_;
      if (budget_->used_.fetch_add(more) + more > budget_->most_) {
        budget_->used_.fetch_sub(more);
        return false;
      }
      held_ = bytes;
      return true;
    }
    void Release() {
      budget_->used_.fetch_sub(held_);
      held_ = 0;
    }

   private:
    ByteBudget* const budget_;
    uint64_t held_ = 0;
  };

 private:
  const uint64_t most_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace kiln

#endif  // KILN_BASE_BYTE_BUDGET_H_
