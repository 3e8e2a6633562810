#include "compiler/schedule/access.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "compiler/schedule/callify.h"

namespace kiln::compiler {
namespace {

// The loops of the kernel are those of this shape.
const Shape& LoopsOf(const Access& access) {
  return access.kernel->op() == Op::STORE ? access.kernel->src(0)->shape() : access.kernel->shape();
}

// How many iterations the leading axes have that stand in both shapes, up to `most`.
// `same(i)` says whether axis i is walked equally.
template <typename Same>
double CommonPrefix(const Shape& a, const Shape& b, double most, Same same) {
  double iterations = 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && iterations < most && a[i] == b[i] && same(i); ++i)
    iterations *= static_cast<double>(a[i].max());
  return std::min(iterations, most);
}

bool HasBoundary(const Shape& shape, double at) {
  double iterations = 1;
  for (const Dim& size : shape) {
    if (iterations >= at) break;
    iterations *= static_cast<double>(size.max());
  }
  return iterations == at;
}

// The greatest number of leading elements, at most `most`, at which axes end in both.
double CommonBoundary(const Shape& a, const Shape& b, double most) {
  double best = 1, iterations = 1;
  for (const Dim& size : a) {
    iterations *= static_cast<double>(size.max());
    if (iterations > most) break;
    if (HasBoundary(b, iterations)) best = iterations;
  }
  return best;
}

double PrefixThrough(const UOp* user, const UOp* source, double prefix) {
  const Shape& from = user->op() == Op::STORE ? user->src(0)->shape() : user->shape();
  const Shape& to = source->shape();
  const auto always = [](size_t) { return true; };
  switch (user->op()) {
    case Op::AFTER:
    case Op::GETTUPLE: return prefix;
    case Op::RESHAPE:
      return IsConst(from) && IsConst(to) ? CommonBoundary(to, from, prefix) : CommonPrefix(to, from, prefix, always);
    case Op::PERMUTE:
      return CommonPrefix(to, from, prefix,
                          [&](size_t i) { return user->arg_as<AxesArg>().axes[i] == static_cast<int64_t>(i); });
    case Op::FLIP:
      return CommonPrefix(to, from, prefix, [&](size_t i) { return user->arg_as<AxesArg>().axes[i] == 0; });
    case Op::REDUCE: {
      const auto& axes = user->arg_as<ReduceArg>().axes;
      return CommonPrefix(to, from, prefix,
                          [&](size_t i) { return std::find(axes.begin(), axes.end(), i) == axes.end(); });
    }
    case Op::EXPAND:
    case Op::PAD:
    case Op::SHRINK: return CommonPrefix(to, from, prefix, always);
    default:
      // Broadcast from the right.
      if (!IsElementwise(user->op()) && user->op() != Op::STORE) return 1;
      return to.size() == from.size() ? CommonPrefix(to, from, prefix, always) : 1;
  }
}

}  // namespace

double SizeOf(const UOp* uop) { return static_cast<double>(MaxElements(uop->shape())); }

bool IsByElements(const UOp* uop) {
  return IsElementwise(uop->op()) || (uop->op() == Op::BITCAST && uop->src(0)->shape() == uop->shape());
}

void Merge(std::vector<Access>& accesses, const Access& access) {
  for (Access& known : accesses) {
    if (known.path == access.path) return;
  }
  accesses.push_back(access);
}

Access Through(const UOp* user, size_t slot, int copy, const Access& access, bool collapses) {
  const UOp* source = user->src(slot);
  Access result = access;
  const bool same_indices =
      (IsByElements(user) && source->shape() == user->shape()) || user->op() == Op::AFTER || user->op() == Op::GETTUPLE;
  if (!same_indices) {
    result.path = absl::HashOf(access.path, user, slot, copy);
    result.prefix = PrefixThrough(user, source, access.prefix);
  }
  if (user->op() == Op::REDUCE && !collapses) {
    result.evaluations *= std::max(1.0, SizeOf(source) / std::max(1.0, SizeOf(user)));
    result.inside_reduce = true;
  }
  return result;
}

bool FollowsOuterLoops(const UOp* value, const Access& access) {
  return access.prefix == SizeOf(value) && HasBoundary(LoopsOf(access), access.prefix);
}

}  // namespace kiln::compiler
