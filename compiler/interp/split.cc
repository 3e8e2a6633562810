#include "compiler/interp/split.h"

#include <algorithm>

#include "compiler/ir/devices.h"

namespace kiln::compiler {
namespace {

// Calls `fn` with each run of the share's bytes: where it is in the whole, where in the
// share, how long.
template <typename Fn>
void ForEachRun(const HostTensor& whole, const Split& split, int64_t number, const Fn& fn) {
  if (split.axis < 0) return fn(size_t{0}, size_t{0}, whole.bytes.size());
  int64_t rows = 1;
  for (int i = 0; i < split.axis; ++i) rows *= whole.shape[i];
  const size_t run = whole.bytes.size() / static_cast<size_t>(std::max<int64_t>(1, rows * split.shares));
  for (int64_t row = 0; row < rows; ++row)
    fn(static_cast<size_t>(row * split.shares + number) * run, static_cast<size_t>(row) * run, run);
}

}  // namespace

Split SplitOf(const UOp* uop) { return {uop->axis(), uop->axis() < 0 ? 1 : DeviceCount(uop->device())}; }

HostTensor ShareOf(const HostTensor& whole, const Split& split, int64_t number) {
  HostTensor share = {whole.dtype, whole.shape, ""};
  if (split.axis >= 0) share.shape[split.axis] = share.shape[split.axis] / split.shares;
  ForEachRun(whole, split, number,
             [&](size_t at, size_t, size_t bytes) { share.bytes.append(whole.bytes, at, bytes); });
  return share;
}

void PutShare(const HostTensor& share, const Split& split, int64_t number, HostTensor& whole) {
  ForEachRun(whole, split, number, [&](size_t to, size_t from, size_t bytes) {
    std::copy_n(share.bytes.data() + from, bytes, whole.bytes.data() + to);
  });
}

}  // namespace kiln::compiler
