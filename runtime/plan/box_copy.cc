#include "runtime/plan/box_copy.h"

#include <algorithm>

namespace kiln::runtime {
namespace {

uint64_t End(const BoxCopy& box, uint64_t offset, uint64_t BoxCopy::Repeat::* stride) {
  for (const BoxCopy::Repeat& repeat : box.repeats) offset += (repeat.count - 1) * (repeat.*stride);
  return offset + box.run_bytes;
}

int64_t ShareSize(const ValueLayout& layout, size_t axis) {
  return static_cast<int>(axis) == layout.axis ? layout.shape[axis] / layout.shares : layout.shape[axis];
}

int64_t ShareBegin(const ValueLayout& layout, int64_t share, size_t axis) {
  return static_cast<int>(axis) == layout.axis ? share * ShareSize(layout, axis) : 0;
}

}  // namespace

int64_t ValueLayout::Elements() const {
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) elements *= ShareSize(*this, i);
  return elements;
}

uint64_t BoxCopy::FromEnd() const { return End(*this, from_offset, &Repeat::from_stride); }
uint64_t BoxCopy::ToEnd() const { return End(*this, to_offset, &Repeat::to_stride); }

uint64_t BoxCopy::TotalBytes() const {
  uint64_t bytes = run_bytes;
  for (const Repeat& repeat : repeats) bytes *= repeat.count;
  return bytes;
}

std::optional<BoxCopy> MeetShares(const ValueLayout& from, int64_t i, const ValueLayout& to, int64_t j, uint32_t item) {
  BoxCopy box;
  box.run_bytes = item;
  uint64_t from_stride = item, to_stride = item;
  for (size_t axis = from.shape.size(); axis-- > 0;) {
    const int64_t from_begin = ShareBegin(from, i, axis), from_size = ShareSize(from, axis);
    const int64_t to_begin = ShareBegin(to, j, axis), to_size = ShareSize(to, axis);
    const int64_t begin = std::max(from_begin, to_begin);
    const int64_t end = std::min(from_begin + from_size, to_begin + to_size);
    if (begin >= end) return std::nullopt;
    box.from_offset += static_cast<uint64_t>(begin - from_begin) * from_stride;
    box.to_offset += static_cast<uint64_t>(begin - to_begin) * to_stride;
    const auto count = static_cast<uint64_t>(end - begin);
    if (box.repeats.empty() && from_stride == box.run_bytes && to_stride == box.run_bytes) {
      box.run_bytes *= count;
    } else if (count > 1) {
      box.repeats.insert(box.repeats.begin(), {count, from_stride, to_stride});
    }
    from_stride *= static_cast<uint64_t>(from_size);
    to_stride *= static_cast<uint64_t>(to_size);
  }
  return box;
}

void SplitBox(const BoxCopy& box, uint64_t max_bytes, uint32_t item, std::vector<BoxCopy>& parts) {
  if (box.FromEnd() - box.from_offset <= max_bytes && box.ToEnd() - box.to_offset <= max_bytes) {
    parts.push_back(box);
    return;
  }
  if (box.repeats.empty()) {
    const uint64_t step = std::max<uint64_t>(item, max_bytes - max_bytes % item);
    for (uint64_t at = 0; at < box.run_bytes; at += step) {
      BoxCopy& part = parts.emplace_back(box);
      part.from_offset += at;
      part.to_offset += at;
      part.run_bytes = std::min(step, box.run_bytes - at);
    }
    return;
  }
  // Some of the outermost repetitions at a time, fewer than there are.
  const BoxCopy::Repeat& outer = box.repeats.front();
  const uint64_t fit = max_bytes / std::max(outer.from_stride, outer.to_stride);
  const uint64_t step = std::max<uint64_t>(1, std::min(fit, outer.count - 1));
  for (uint64_t at = 0; at < outer.count; at += step) {
    BoxCopy part = box;
    part.from_offset += at * outer.from_stride;
    part.to_offset += at * outer.to_stride;
    part.repeats.front().count = std::min(step, outer.count - at);
    if (part.repeats.front().count == 1) part.repeats.erase(part.repeats.begin());
    SplitBox(part, max_bytes, item, parts);
  }
}

}  // namespace kiln::runtime
