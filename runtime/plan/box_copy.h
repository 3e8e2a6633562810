// From layout to layout: which bytes of which share a device needs.
//
// A share is a box of the whole value, stored row-major. What one share has of another
// is the box in which they meet: some runs of bytes, at a stride on either side.
#ifndef KILN_RUNTIME_PLAN_BOX_COPY_H_
#define KILN_RUNTIME_PLAN_BOX_COPY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace kiln::runtime {

// How a value of `shape` is laid out: split along `axis` over `shares`, or whole (-1).
struct ValueLayout {
  std::vector<int64_t> shape;
  int axis = -1;
  int64_t shares = 1;

  // Of one share.
  int64_t Elements() const;
};

struct BoxCopy {
  struct Repeat {
    uint64_t count;
    uint64_t from_stride;
    uint64_t to_stride;
  };
  uint32_t from = 0;  // a slice of the run's
  uint32_t to = 0;    // likewise
  uint64_t from_offset = 0;
  uint64_t to_offset = 0;
  uint64_t run_bytes = 0;
  absl::InlinedVector<Repeat, 2> repeats;  // outermost first

  // One past the last byte that is touched.
  uint64_t FromEnd() const;
  uint64_t ToEnd() const;
  uint64_t TotalBytes() const;
};

// What share `i` of `from` has for share `j` of `to`; nothing where they do not meet.
// Both are of one shape, with elements of `item` bytes. `from` and `to` of the copy are
// left 0.
std::optional<BoxCopy> MeetShares(const ValueLayout& from, int64_t i, const ValueLayout& to, int64_t j, uint32_t item);

// Appends boxes that are `box` together, none of which spans more than `max_bytes` on
// either side, if `max_bytes` has room for one item; runs are cut between items.
void SplitBox(const BoxCopy& box, uint64_t max_bytes, uint32_t item, std::vector<BoxCopy>& parts);

// Calls `move(from, to, bytes)` for each run, with addresses.
template <typename Move>
void ForEachRun(const BoxCopy& box, const char* from, char* to, const Move& move) {
  from += box.from_offset;
  to += box.to_offset;
  absl::InlinedVector<uint64_t, 4> at(box.repeats.size(), 0);
  for (;;) {
    move(from, to, box.run_bytes);
    size_t axis = box.repeats.size();
    for (;;) {
      if (axis == 0) return;
      const BoxCopy::Repeat& repeat = box.repeats[--axis];
      from += repeat.from_stride;
      to += repeat.to_stride;
      if (++at[axis] < repeat.count) break;
      from -= repeat.from_stride * repeat.count;
      to -= repeat.to_stride * repeat.count;
      at[axis] = 0;
    }
  }
}

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_PLAN_BOX_COPY_H_
