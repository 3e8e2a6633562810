#include "runtime/exec/move_boxes.h"

#include <cstring>

#include "absl/container/inlined_vector.h"
#include "base/error.h"
#include "runtime/hal/device.h"
#include "runtime/plan/box_copy.h"

namespace kiln::runtime {
namespace {

// What is kept here of a box's slices at a time, at most.
constexpr uint64_t kWindowBytes = 128 << 20;

// Devices are asked for runs one by one. Of so many that are shorter than this, it takes longer
// than their whole extent does through the host.
constexpr uint64_t kFewRuns = 64, kLongRun = 16 << 10;

hal::Device& OwnerOf(const hal::BufferSlice& slice) { return const_cast<hal::Device&>(*slice.buffer->device()); }

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
    owner_ = &OwnerOf(slice);
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

// Whether the one that gets it copies it without the host.
bool GoesDirectly(const BoxCopy& box, const std::vector<hal::BufferSlice>& slices) {
  if (!OwnerOf(slices[box.to]).CopiesFrom(OwnerOf(slices[box.from]))) return false;
  return box.run_bytes >= kLongRun || box.TotalBytes() <= kFewRuns * box.run_bytes;
}

absl::Status MoveDirectly(const BoxCopy& box, const std::vector<hal::BufferSlice>& slices) {
  const hal::BufferSlice &from = slices[box.from], &to = slices[box.to];
  to.buffer->Changed();
  std::vector<hal::Move> moves;
  ForEachRun(box, static_cast<const char*>(from.device_data()), static_cast<char*>(to.device_data()),
             [&](const char* source, char* target, uint64_t bytes) { moves.push_back({source, target, bytes}); });
  return OwnerOf(to).CopyFrom(OwnerOf(from), moves);
}

absl::Status MoveBox(const ProgramTask& task, const BoxCopy& box, const std::vector<hal::BufferSlice>& slices) {
  Window from, to;
  KILN_RETURN_IF_ERROR(
      from.Open(slices[box.from], box.from_offset, box.FromEnd(), /*fetch=*/task.arithmetic == nullptr));
  slices[box.to].buffer->Changed();
  KILN_RETURN_IF_ERROR(to.Open(slices[box.to], box.to_offset, box.ToEnd(), /*fetch=*/!box.repeats.empty()));
  // All that are reduced are laid out alike.
  std::vector<Window> reduced(task.reduced.size());
  for (size_t i = 0; i < reduced.size(); ++i) {
    KILN_RETURN_IF_ERROR(reduced[i].Open(slices[task.reduced[i]], box.from_offset, box.FromEnd(), /*fetch=*/true));
  }
  absl::InlinedVector<const void*, 8> inputs(reduced.size());
  const char* const begin = from.base();
  ForEachRun(box, begin, to.base(), [&](const char* source, char* target, uint64_t bytes) {
    if (task.arithmetic == nullptr) {
      std::memcpy(target, source, bytes);
      return;
    }
    for (size_t i = 0; i < reduced.size(); ++i) inputs[i] = reduced[i].base() + (source - begin);
    void* const output = target;
    task.arithmetic->reduce(inputs.data(), static_cast<uint32_t>(inputs.size()), &output, 1,
                            bytes / task.arithmetic->item_bytes);
  });
  return to.Close();
}

}  // namespace

absl::Status MoveBoxes(const ProgramTask& task, const std::vector<hal::BufferSlice>& slices) {
  const uint32_t item = task.arithmetic == nullptr ? 1 : task.arithmetic->item_bytes;
  std::vector<BoxCopy> parts;
  for (const BoxCopy& box : task.copies) {
    if (task.arithmetic == nullptr && GoesDirectly(box, slices)) {
      KILN_RETURN_IF_ERROR(MoveDirectly(box, slices));
      continue;
    }
    parts.clear();
    SplitBox(box, kWindowBytes / (2 + task.reduced.size()), item, parts);
    for (const BoxCopy& part : parts) KILN_RETURN_IF_ERROR(MoveBox(task, part, slices));
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime
