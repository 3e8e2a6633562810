// Buffers with nothing around them: a page before and a page behind that nobody
// may touch, so that an access outside ends the process at once.
#ifndef KILN_TESTS_SUPPORT_GUARDED_BUFFER_H_
#define KILN_TESTS_SUPPORT_GUARDED_BUFFER_H_

#include <cstdint>

#include "runtime/hal/buffer.h"

namespace kiln::testing {

class GuardedBuffer final : public runtime::hal::Buffer {
 public:
  // Where in its pages the buffer lies: the guard behind, or the one before, is
  // then its neighbour. What is left of the pages is filled with a pattern.
  enum class Side { kBegin, kEnd };

  // `device` must outlive the buffer.
  GuardedBuffer(const runtime::hal::Device* device, uint64_t bytes, Side side);
  ~GuardedBuffer() override;

  uint64_t bytes() const override { return bytes_; }
  const runtime::hal::Device* device() const override { return device_; }
  void* device_data() const override { return data_; }
  void* host_data() const override { return data_; }

  // Whether the pattern around the buffer is as it was.
  bool Intact() const;

 private:
  const runtime::hal::Device* const device_;
  const uint64_t bytes_;
  uint64_t inner_;  // bytes between the guards
  char* pages_;     // the first of them
  char* data_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_GUARDED_BUFFER_H_
