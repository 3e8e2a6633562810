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

int64_t CheckNumber(const char* function, Tensor x, int64_t axis) {
  if (const std::optional<int64_t> number = x.sizes()[axis].number()) return *number;
  FailShape(x, function, absl::StrCat("axis ", axis, " of ", ShapeText(x.sizes()), " must be a number"));
  return -1;
}

Tensor Reshape(Tensor x, Sizes shape) {
  if (!x.valid()) return x;
  const Size count = x.sizes().Count();
  const auto open = std::find(shape.begin(), shape.end(), Size(-1));
  if (open != shape.end()) {
    *open = 1;
    const std::optional<Size> rest = count.DividedBy(shape.Count());
    if (!rest) {
      *open = -1;
      return FailShape(x, "Reshape", absl::StrCat(ShapeText(x.sizes()), " does not divide into ", ShapeText(shape)));
    }
    *open = *rest;
  }
  const bool negative = std::any_of(shape.begin(), shape.end(), [](const Size& size) { return size.greatest() < 0; });
  if (negative || shape.Count() != count) {
    return FailShape(
        x, "Reshape",
        absl::StrCat(ShapeText(x.sizes()), " has ", count.Text(), " elements; ", ShapeText(shape), " has not"));
  }
  if (shape == x.sizes()) return x;
  const uint32_t source = x.graph()->ShapeSource(shape);
  return x.graph()->Node(v1::RESHAPE, {x.node(), source}, x.dtype(), std::move(shape));
}

Tensor Permute(Tensor x, const std::vector<int64_t>& axes) {
  if (!x.valid()) return x;
  Sizes shape;
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
    shape.push_back(x.sizes()[wrapped]);
  }
  if (shape.size() != x.sizes().size()) {
    return FailShape(x, "Permute", absl::StrCat(axes.size(), " axes for a tensor of ", ShapeText(x.sizes())));
  }
  if (std::is_sorted(uop.axes().axis().begin(), uop.axes().axis().end())) return x;
  return x.graph()->Node(std::move(uop), x.dtype(), std::move(shape));
}

Tensor Expand(Tensor x, Sizes shape) {
  if (!x.valid()) return x;
  const Sizes& from = x.sizes();
  if (shape.size() != from.size()) {
    return FailShape(x, "Expand", absl::StrCat(ShapeText(from), " to ", ShapeText(shape), " changes the rank"));
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == -1) shape[axis] = from[axis];
    if (shape[axis].greatest() < 0 || (from[axis] != 1 && from[axis] != shape[axis])) {
      return FailShape(x, "Expand",
                       absl::StrCat(ShapeText(from), " to ", ShapeText(shape), ": only axes of size 1 stretch"));
    }
  }
  if (shape == from) return x;
  const uint32_t source = x.graph()->ShapeSource(shape);
  return x.graph()->Node(v1::EXPAND, {x.node(), source}, x.dtype(), std::move(shape));
}

Tensor Pad(Tensor x, const AxisRanges& padding, Scalar fill) {
  if (!x.valid()) return x;
  if (padding.size() != x.sizes().size()) {
    return FailShape(x, "Pad", absl::StrCat(padding.size(), " pairs for a tensor of ", ShapeText(x.sizes())));
  }
  Sizes offset, shape;
  for (size_t axis = 0; axis < padding.size(); ++axis) {
    const auto& [before, after] = padding[axis];
    if (before.greatest() < 0 || after.greatest() < 0) {
      return FailShape(x, "Pad", "no less than nothing can be added; Shrink takes away");
    }
    const Size size = x.sizes()[axis] + before + after;
    if (!size.valid()) {
      return x.graph()->Fail(v1::SIZE_OVERFLOW, "Pad",
                             absl::StrCat("axis ", axis, " by ", before.Text(), " and ", after.Text()));
    }
    offset.push_back(before);
    shape.push_back(size);
  }
  if (shape == x.sizes()) return x;
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
  if (ranges.size() != x.sizes().size()) {
    return FailShape(x, "Shrink", absl::StrCat(ranges.size(), " ranges for a tensor of ", ShapeText(x.sizes())));
  }
  Sizes offset, shape;
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    const auto& [begin, end] = ranges[axis];
    const Size size = end - begin, after = x.sizes()[axis] - end;
    const bool known = size.valid() && after.valid();
    if (!known || begin.greatest() < 0 || size.greatest() < 0 || after.greatest() < 0) {
      return FailShape(x, "Shrink",
                       absl::StrCat("[", begin.Text(), ", ", end.Text(), ") is no part of axis ", axis, " of ",
                                    ShapeText(x.sizes())));
    }
    offset.push_back(begin);
    shape.push_back(size);
  }
  if (shape == x.sizes()) return x;
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
  return axes.empty() ? x : x.graph()->Node(std::move(uop), x.dtype(), x.sizes());
}

Tensor Index(Tensor x, const std::vector<Tensor>& indices) {
  if (!x.valid()) return x;
  if (static_cast<int64_t>(indices.size()) > x.rank()) {
    return FailShape(x, "Index", absl::StrCat(indices.size(), " indices into ", ShapeText(x.sizes())));
  }
  std::vector<uint32_t> sources = {x.node()};
  Sizes shape;
  for (const Tensor& index : indices) {
    if (!index.valid() || index.graph() != x.graph()) return x.graph()->Fail(absl::OkStatus());
    if (!IsInteger(index.dtype())) {
      return x.graph()->Fail(v1::DTYPE_MISMATCH, "Index",
                             absl::StrCat("an index is an integer, not ", DTypeName(index.dtype())));
    }
    if (index.rank() > 1) {
      return FailShape(x, "Index", absl::StrCat("an index is a scalar or a vector, not ", ShapeText(index.sizes())));
    }
    shape.insert(shape.end(), index.sizes().begin(), index.sizes().end());
    sources.push_back(index.node());
  }
  shape.insert(shape.end(), x.sizes().begin() + static_cast<std::ptrdiff_t>(indices.size()), x.sizes().end());
  return indices.empty() ? x : x.graph()->Node(v1::INDEX, sources, x.dtype(), std::move(shape));
}

Tensor Stack(const std::vector<Tensor>& tensors, int64_t axis) {
  if (!SameKind("Stack", tensors)) return Nothing(tensors);
  const Tensor& first = tensors[0];
  std::vector<uint32_t> sources;
  for (const Tensor& x : tensors) {
    if (x.sizes() != first.sizes()) {
      return FailShape(x, "Stack", absl::StrCat("shapes ", ShapeText(first.sizes()), " and ", ShapeText(x.sizes())));
    }
    sources.push_back(x.node());
  }
  Sizes shape = first.sizes();
  shape.insert(shape.begin(), tensors.size());
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
  Size total = 0;
  for (const Tensor& x : tensors) {
    Sizes rest = x.sizes();
    if (x.rank() == first.rank()) rest[place] = first.sizes()[place];
    if (rest != first.sizes()) {
      return FailShape(
          x, "Concat",
          absl::StrCat(ShapeText(first.sizes()), " and ", ShapeText(x.sizes()), " differ in more than axis ", place));
    }
    total += x.sizes()[place];
  }
  Tensor sum;
  Size before = 0;
  for (const Tensor& x : tensors) {
    AxisRanges padding(x.rank(), {0, 0});
    padding[place] = {before, total - before - x.sizes()[place]};
    const Tensor part = Pad(x, padding);
    sum = before == 0 && !sum.valid() ? part : sum + part;
    before += x.sizes()[place];
  }
  return sum;
}

}  // namespace kiln::client
