#include "server/process/heap_trimmer.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>

#include "absl/time/time.h"

namespace kiln::server {
namespace {

constexpr size_t kMuch = 64 << 20;
// mallinfo2() visits each free piece: some milliseconds where there are a hundred thousand.
constexpr absl::Duration kPeriod = absl::Seconds(5);

}  // namespace

bool TrimRule::Due(size_t free_bytes) {
  floor_bytes_ = std::min(floor_bytes_, free_bytes);
  const bool much = free_bytes - floor_bytes_ >= kMuch;
  const bool due = much && was_much_;
  was_much_ = much && !due;
  if (due) floor_bytes_ = free_bytes;
  return due;
}

HeapTrimmer::HeapTrimmer()
    : thread_([this] {
        TrimRule rule;
        while (!bell_.Wait(kPeriod)) {
          if (rule.Due(mallinfo2().fordblks)) malloc_trim(0);
        }
      }) {
  pthread_setname_np(thread_.native_handle(), "kiln-heap");
}

HeapTrimmer::~HeapTrimmer() {
  bell_.Ring();
  thread_.join();
}

}  // namespace kiln::server
