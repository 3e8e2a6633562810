// Gives memory that nothing uses any more back to the system.
//
// glibc gives back what is free at the end of an arena, and keeps what is free in its middle. A compiled program is
// thousands of small pieces between those of others: 13,000 programs that came and went left more than 250 MiB that
// nobody used and no other process could have. malloc_trim() gives back the pages of such pieces.
#ifndef KILN_SERVER_PROCESS_HEAP_TRIMMER_H_
#define KILN_SERVER_PROCESS_HEAP_TRIMMER_H_

#include <cstddef>
#include <limits>
#include <thread>

#include "base/clock.h"

namespace kiln::server {

// When trimming is worth its price: while it lasts, who allocates from the same arena waits.
class TrimRule {
 public:
  // What the heap has free at this look, in bytes, given back or not. True: trim now.
  //  - Only what has become free since the last trim counts: pages that were given back are still called free.
  //  - It must be there at two looks in a row: what is about to be used again, such as chunks of transfers, stays.
  bool Due(size_t free_bytes);

 private:
  size_t floor_bytes_ = std::numeric_limits<size_t>::max();  // the least that was free since the last trim
  bool was_much_ = false;
};

// Looks at this process's heap every few seconds, on a thread of its own, while it lives.
class HeapTrimmer {
 public:
  HeapTrimmer();
  ~HeapTrimmer();
  HeapTrimmer(const HeapTrimmer&) = delete;
  HeapTrimmer& operator=(const HeapTrimmer&) = delete;

 private:
  Bell bell_;  // rings for the end
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_PROCESS_HEAP_TRIMMER_H_
