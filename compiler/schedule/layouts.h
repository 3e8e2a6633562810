// In which order the axes of intermediate values lie in memory.
//
// A product reads its factors best where what it reduces lies along memory; and a convolution reduces the channels of
// an image that a graph has before its lines. Only what a caller sees must lie as its shape says: between kernels an
// image may lie with its channels last, and weights are copied in the order that the kernel wants anyway
// (opt/local_buffer.h).
//
// Each kernel votes for the axis that should be last in what it reads: a product for the one that it reduces, any other
// for the one that is last in what it writes. Votes are weighted by how much work they are about, and counted from the
// last kernel to the first, so that a value's order is known when its own kernel votes. Tested by layouts_test.
#ifndef KILN_COMPILER_SCHEDULE_LAYOUTS_H_
#define KILN_COMPILER_SCHEDULE_LAYOUTS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

struct KernelDraft;

// Of a value, its axes as they are nested in memory, outermost first. A value without an entry is row-major.
using Layouts = absl::flat_hash_map<const UOp*, std::vector<int64_t>>;

// Whether a value has at least three axes, of constant sizes.
bool MayHaveLayout(const UOp* value);

// Whether there are sums of products in a graph of tensors; and the PADs that their factors are views of.
bool HasProducts(UOp* sink);
std::vector<UOp*> PadsOfFactors(UOp* sink);
// Whether a PAD is not much larger than what is in it: a buffer of it is worth its memory.
bool IsLittlePadding(const UOp* pad);

// The values of which a product with parameters alone reads factors under gates: what it reads lies around an image.
// With the zeros in memory, and channels last, it needs neither a gate nor a copy.
absl::flat_hash_set<const UOp*> PaddedFactors(absl::Span<const KernelDraft> drafts);

// `drafts` are a function's kernels with all values in the order of their shapes.
Layouts ChooseLayouts(absl::Span<const KernelDraft> drafts);

// `list`, one item an axis, in the order of `value`'s axes in memory.
template <typename List>
List InMemoryOrder(const Layouts& layouts, const UOp* value, const List& list) {
  const auto found = layouts.find(value);
  if (found == layouts.end()) return list;
  List ordered;
  for (const int64_t axis : found->second) ordered.push_back(list[static_cast<size_t>(axis)]);
  return ordered;
}

// The other way round.
template <typename List>
List InShapeOrder(const Layouts& layouts, const UOp* value, const List& list) {
  const auto found = layouts.find(value);
  if (found == layouts.end()) return list;
  List ordered = list;
  for (size_t i = 0; i < list.size(); ++i) ordered[static_cast<size_t>(found->second[i])] = list[i];
  return ordered;
}

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_LAYOUTS_H_
