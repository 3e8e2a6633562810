#include "runtime/plan/sequence_bytes.h"

#include <algorithm>
#include <iterator>

namespace kiln::runtime {

void SequenceUse::Stretch(SequenceBytes& all, SequenceBytes bytes) {
  if (bytes.empty()) return;
  all = all.empty() ? bytes : SequenceBytes{std::min(all.begin, bytes.begin), std::max(all.end, bytes.end)};
}

void SequenceUse::Reads(SequenceBytes bytes) {
  const auto after = overwritten_.upper_bound(bytes.begin);
  if (after != overwritten_.begin() && std::prev(after)->second >= bytes.end) return;
  Stretch(read_, bytes);
}

void SequenceUse::Overwrites(SequenceBytes bytes) {
  if (bytes.empty()) return;
  auto [begin, end] = bytes;
  auto next = overwritten_.lower_bound(begin);
  if (next != overwritten_.begin() && std::prev(next)->second >= begin) --next;
  while (next != overwritten_.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = overwritten_.erase(next);
  }
  overwritten_[begin] = end;
}

SequenceBytes SequenceUse::overwritten() const {
  SequenceBytes longest;
  for (const auto& [begin, end] : overwritten_) {
    if (end - begin > longest.end - longest.begin) longest = {begin, end};
  }
  return longest;
}

}  // namespace kiln::runtime
