#include "runtime/exec/multi_move.h"

#include <cstring>

#include "absl/container/inlined_vector.h"
#include "base/error.h"
#include "runtime/exec/box_copy.h"
#include "runtime/hal/device.h"

namespace kiln::runtime {
namespace {

// What is kept here of one slice at a time, at most.
constexpr uint64_t kWindowBytes = 64 << 20;

// Bytes [begin, end) of a slice where this process sees them.
class Window {
 public:
  // `fetch`: what they are now matters.
  absl::Status Open(const hal::BufferSlice& slice, uint64_t begin, uint64_t end, bool fetch) {
    begin_ = begin;
    bytes_ = end - begin;
    device_ = static_cast<char*>(slice.device_data()) + begin;
    if (auto* const host = static_cast<char*>(slice.host_data()); host != nullptr) {
      here_ = host + begin;
      return absl::OkStatus();
    }
    owner_ = const_cast<hal::Device*>(slice.buffer->device());
    fetched_.resize(bytes_);
    here_ = fetched_.data();
    return fetch ? owner_->Load(device_, bytes_, here_) : absl::OkStatus();
  }

  // What was written here is there as well.
  absl::Status Close() { return owner_ == nullptr ? absl::OkStatus() : owner_->Store(here_, bytes_, device_); }

  // Where the slice would begin.
  char* base() const { return here_ - begin_; }

 private:
  uint64_t begin_ = 0;
  uint64_t bytes_ = 0;
  char* device_ = nullptr;
  char* here_ = nullptr;
  hal::Device* owner_ = nullptr;  // null where the host sees the memory
  std::vector<char> fetched_;
};

absl::Status MoveBox(const MultiTask& task, const BoxCopy& box, const std::vector<hal::BufferSlice>& slices) {
  Window from, to;
  KILN_RETURN_IF_ERROR(from.Open(slices[box.from], box.from_offset, box.FromEnd(), /*fetch=*/task.fold == nullptr));
  slices[box.to].buffer->Changed();
  KILN_RETURN_IF_ERROR(to.Open(slices[box.to], box.to_offset, box.ToEnd(), /*fetch=*/!box.repeats.empty()));
  // All that are folded are laid out alike.
  std::vector<Window> folded(task.folded.size());
  for (size_t i = 0; i < folded.size(); ++i) {
    KILN_RETURN_IF_ERROR(folded[i].Open(slices[task.folded[i]], box.from_offset, box.FromEnd(), /*fetch=*/true));
  }
  absl::InlinedVector<const void*, 8> inputs(folded.size());
  const char* const begin = from.base();
  ForEachRun(box, begin, to.base(), [&](const char* source, char* target, uint64_t bytes) {
    if (task.fold == nullptr) {
      std::memcpy(target, source, bytes);
      return;
    }
    for (size_t i = 0; i < folded.size(); ++i) inputs[i] = folded[i].base() + (source - begin);
    void* const output = target;
    task.fold->reduce(inputs.data(), static_cast<uint32_t>(inputs.size()), &output, 1, bytes / task.fold->item_bytes);
  });
  return to.Close();
}

}  // namespace

absl::Status MoveBoxes(const MultiTask& task, const std::vector<hal::BufferSlice>& slices) {
  const uint32_t item = task.fold == nullptr ? 1 : task.fold->item_bytes;
  std::vector<BoxCopy> parts;
  for (const BoxCopy& box : task.copies) {
    parts.clear();
    SplitBox(box, kWindowBytes, item, parts);
    for (const BoxCopy& part : parts) KILN_RETURN_IF_ERROR(MoveBox(task, part, slices));
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime
