#include "tests/support/guarded_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kiln::testing {
namespace {

constexpr uint64_t kPage = 4096;
constexpr char kPattern = 0x5A;

}  // namespace

GuardedBuffer::GuardedBuffer(const runtime::hal::Device* device, uint64_t bytes, Side side)
    : device_(device), bytes_(bytes), inner_(std::max((bytes + kPage - 1) / kPage * kPage, kPage)) {
  void* all = mmap(nullptr, inner_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KILN_CHECK(all != MAP_FAILED);
  pages_ = static_cast<char*>(all) + kPage;
  KILN_CHECK(mprotect(pages_, inner_, PROT_READ | PROT_WRITE) == 0);
  std::memset(pages_, kPattern, inner_);
  data_ = side == Side::kBegin ? pages_ : pages_ + inner_ - bytes;
}

GuardedBuffer::~GuardedBuffer() { munmap(pages_ - kPage, inner_ + 2 * kPage); }

bool GuardedBuffer::Intact() const {
  const auto is_pattern = [](char c) { return c == kPattern; };
  return std::all_of(pages_, data_, is_pattern) && std::all_of(data_ + bytes_, pages_ + inner_, is_pattern);
}

}  // namespace kiln::testing
