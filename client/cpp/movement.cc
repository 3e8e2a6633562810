#include "client/cpp/movement.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/cpp/elementwise.h"

namespace kiln::client {
namespace {

Tensor FailShape(Tensor x, const char* function, absl::string_view message) {
  return x.graph()->Fail(v1::SHAPE_MISMATCH, function, message);
}

// True if every tensor is valid and of one graph and dtype.
bool SameKind(const char* function, const std::vector<Tensor>& tensors) {
  for (const Tensor& x : tensors) {
    if (!x.valid()) return false;
    if (x.graph() != tensors[0].graph() || x.dtype() != tensors[0].dtype()) {
      x.graph()->Fail(v1::DTYPE_MISMATCH, function,
                      absl::StrCat("all tensors must be of one graph and dtype; there are ",
                                   DTypeName(tensors[0].dtype()), " and ", DTypeName(x.dtype())));
      return false;
    }
  }
  return !tensors.empty();
}

// What Stack and Concat return when SameKind is false.
Tensor Nothing(const std::vector<Tensor>& tensors) {
  for (const Tensor& x : tensors) {
    if (x.graph() != nullptr) return x.graph()->Fail(absl::OkStatus());
  }
  return Tensor();
}

}  // namespace

int64_t CheckAxis(Graph& graph, const char* function, int64_t axis, int64_t rank) {
  const int64_t wrapped = axis < 0 ? axis + rank : axis;
  if (wrapped >= 0 && wrapped < rank) return wrapped;
  graph.Fail(v1::BAD_ARGUMENT, function, absl::StrCat("no axis ", axis, " in a tensor of rank ", rank));
  return -1;
}

Tensor Reshape(Tensor x, Shape shape) {
  if (!x.valid()) return x;
  const int64_t count = *ElementCount(x.shape());
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    *open = 1;
    const int64_t rest = ElementCount(shape).value_or(0);
    if (rest == 0 || count % rest != 0) {
      *open = -1;
      return FailShape(x, "Reshape", absl::StrCat(ShapeText(x.shape()), " does not divide into ", ShapeText(shape)));
    }
    *open = count / rest;
  }
  if (ElementCount(shape) != count) {
    return FailShape(x, "Reshape",
                     absl::StrCat(ShapeText(x.shape()), " has ", count, " elements; ", ShapeText(shape), " has not"));
  }
  if (shape == x.shape()) return x;
  const uint32_t source = x.graph()->ShapeSource(shape);
  return x.graph()->Node(v1::RESHAPE, {x.node(), source}, x.dtype(), std::move(shape));
}

Tensor Permute(Tensor x, const std::vector<int64_t>& axes) {
  if (!x.valid()) return x;
  Shape shape;
  std::vector<bool> seen(x.rank(), false);
  v1::UOp uop;
  uop.set_op(v1::PERMUTE);
  uop.add_src(x.node());
  uop.mutable_axes();
  for (const int64_t axis : axes) {
    const int64_t wrapped = CheckAxis(*x.graph(), "Permute", axis, x.rank());
    if (wrapped < 0) return x.graph()->Fail(absl::OkStatus());
    if (seen[wrapped]) return FailShape(x, "Permute", absl::StrCat("axis ", axis, " is there twice"));
    seen[wrapped] = true;
    uop.mutable_axes()->add_axis(wrapped);
    shape.push_back(x.shape()[wrapped]);
  }
  if (shape.size() != x.shape().size()) {
    return FailShape(x, "Permute", absl::StrCat(axes.size(), " axes for a tensor of ", ShapeText(x.shape())));
  }
  if (std::is_sorted(uop.axes().axis().begin(), uop.axes().axis().end())) return x;
  return x.graph()->Node(std::move(uop), x.dtype(), std::move(shape));
}

Tensor Expand(Tensor x, Shape shape) {
  if (!x.valid()) return x;
  if (shape.size() != x.shape().size()) {
    return FailShape(x, "Expand", absl::StrCat(ShapeText(x.shape()), " to ", ShapeText(shape), " changes the rank"));
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == -1) shape[axis] = x.shape()[axis];
    if (shape[axis] < 0 || (x.shape()[axis] != 1 && x.shape()[axis] != shape[axis])) {
      return FailShape(x, "Expand",
                       absl::StrCat(ShapeText(x.shape()), " to ", ShapeText(shape), ": only axes of size 1 stretch"));
    }
  }
  if (shape == x.shape()) return x;
  const uint32_t source = x.graph()->ShapeSource(shape);
  return x.graph()->Node(v1::EXPAND, {x.node(), source}, x.dtype(), std::move(shape));
}

Tensor Pad(Tensor x, const AxisRanges& padding, Scalar fill) {
  if (!x.valid()) return x;
  if (padding.size() != x.shape().size()) {
    return FailShape(x, "Pad", absl::StrCat(padding.size(), " pairs for a tensor of ", ShapeText(x.shape())));
  }
  Shape offset, shape;
  for (size_t axis = 0; axis < padding.size(); ++axis) {
    const auto [before, after] = padding[axis];
    if (before < 0 || after < 0) return FailShape(x, "Pad", "no less than nothing can be added; Shrink takes away");
    int64_t size = x.shape()[axis];
    if (__builtin_add_overflow(size, before, &size) || __builtin_add_overflow(size, after, &size)) {
      return x.graph()->Fail(v1::SIZE_OVERFLOW, "Pad", absl::StrCat("axis ", axis, " by ", before, " and ", after));
    }
    offset.push_back(before);
    shape.push_back(size);
  }
  if (shape == x.shape()) return x;
  absl::StatusOr<v1::ConstArg> constant = fill.In(x.dtype());
  if (!constant.ok()) return x.graph()->Fail(constant.status());
  v1::UOp uop;
  uop.set_op(v1::PAD);
  uop.add_src(x.node());
  uop.add_src(x.graph()->ShapeSource(offset));
  uop.add_src(x.graph()->ShapeSource(shape));
  *uop.mutable_pad()->mutable_fill() = *std::move(constant);
  return x.graph()->Node(std::move(uop), x.dtype(), std::move(shape));
}

Tensor Shrink(Tensor x, const AxisRanges& ranges) {
  if (!x.valid()) return x;
  if (ranges.size() != x.shape().size()) {
    return FailShape(x, "Shrink", absl::StrCat(ranges.size(), " ranges for a tensor of ", ShapeText(x.shape())));
  }
  Shape offset, shape;
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    const auto [begin, end] = ranges[axis];
    if (begin < 0 || begin > end || end > x.shape()[axis]) {
      return FailShape(
          x, "Shrink",
          absl::StrCat("[", begin, ", ", end, ") is no part of axis ", axis, " of ", ShapeText(x.shape())));
    }
    offset.push_back(begin);
    shape.push_back(end - begin);
  }
  if (shape == x.shape()) return x;
  const uint32_t offset_source = x.graph()->ShapeSource(offset);
  const uint32_t shape_source = x.graph()->ShapeSource(shape);
  return x.graph()->Node(v1::SHRINK, {x.node(), offset_source, shape_source}, x.dtype(), std::move(shape));
}

Tensor Flip(Tensor x, const std::vector<int64_t>& axes) {
  if (!x.valid()) return x;
  std::vector<bool> flags(x.rank(), false);
  for (const int64_t axis : axes) {
    const int64_t wrapped = CheckAxis(*x.graph(), "Flip", axis, x.rank());
    if (wrapped < 0) return x.graph()->Fail(absl::OkStatus());
    flags[wrapped] = true;
  }
  v1::UOp uop;
  uop.set_op(v1::FLIP);
  uop.add_src(x.node());
  for (const bool flag : flags) uop.mutable_flip()->add_axis(flag);
  return axes.empty() ? x : x.graph()->Node(std::move(uop), x.dtype(), x.shape());
}

Tensor Index(Tensor x, const std::vector<Tensor>& indices) {
  if (!x.valid()) return x;
  if (static_cast<int64_t>(indices.size()) > x.rank()) {
    return FailShape(x, "Index", absl::StrCat(indices.size(), " indices into ", ShapeText(x.shape())));
  }
  std::vector<uint32_t> sources = {x.node()};
  Shape shape;
  for (const Tensor& index : indices) {
    if (!index.valid() || index.graph() != x.graph()) return x.graph()->Fail(absl::OkStatus());
    if (!IsInteger(index.dtype())) {
      return x.graph()->Fail(v1::DTYPE_MISMATCH, "Index",
                             absl::StrCat("an index is an integer, not ", DTypeName(index.dtype())));
    }
    if (index.rank() > 1) {
      return FailShape(x, "Index", absl::StrCat("an index is a scalar or a vector, not ", ShapeText(index.shape())));
    }
    shape.insert(shape.end(), index.shape().begin(), index.shape().end());
    sources.push_back(index.node());
  }
  shape.insert(shape.end(), x.shape().begin() + indices.size(), x.shape().end());
  return indices.empty() ? x : x.graph()->Node(v1::INDEX, sources, x.dtype(), std::move(shape));
}

Tensor Stack(const std::vector<Tensor>& tensors, int64_t axis) {
  if (!SameKind("Stack", tensors)) return Nothing(tensors);
  const Tensor& first = tensors[0];
  std::vector<uint32_t> sources;
  for (const Tensor& x : tensors) {
    if (x.shape() != first.shape()) {
      return FailShape(x, "Stack", absl::StrCat("shapes ", ShapeText(first.shape()), " and ", ShapeText(x.shape())));
    }
    sources.push_back(x.node());
  }
  Shape shape = first.shape();
  shape.insert(shape.begin(), static_cast<int64_t>(tensors.size()));
  const int64_t rank = static_cast<int64_t>(shape.size());
  const int64_t place = CheckAxis(*first.graph(), "Stack", axis, rank);
  const Tensor stacked = first.graph()->Node(v1::STACK, sources, first.dtype(), std::move(shape));
  if (place < 0) return first.graph()->Fail(absl::OkStatus());
  std::vector<int64_t> order(rank - 1);
  std::iota(order.begin(), order.end(), 1);
  order.insert(order.begin() + place, 0);
  return Permute(stacked, order);
}

Tensor Concat(const std::vector<Tensor>& tensors, int64_t axis) {
  if (!SameKind("Concat", tensors)) return Nothing(tensors);
  const Tensor& first = tensors[0];
  const int64_t place = CheckAxis(*first.graph(), "Concat", axis, first.rank());
  if (place < 0) return first.graph()->Fail(absl::OkStatus());
  int64_t total = 0;
  for (const Tensor& x : tensors) {
    Shape rest = x.shape();
    if (x.rank() == first.rank()) rest[place] = first.shape()[place];
    if (rest != first.shape()) {
      return FailShape(
          x, "Concat",
          absl::StrCat(ShapeText(first.shape()), " and ", ShapeText(x.shape()), " differ in more than axis ", place));
    }
    total += x.shape()[place];
  }
  Tensor sum;
  int64_t before = 0;
  for (const Tensor& x : tensors) {
    AxisRanges padding(x.rank(), {0, 0});
    padding[place] = {before, total - before - x.shape()[place]};
    const Tensor part = Pad(x, padding);
    sum = before == 0 && !sum.valid() ? part : sum + part;
    before += x.shape()[place];
  }
  return sum;
}

}  // namespace kiln::client
