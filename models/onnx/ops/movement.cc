// Moving elements: nothing is computed.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <limits>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// Lists that were attributes in older opsets and are inputs since.
absl::StatusOr<std::vector<int64_t>> ListOf(Node& node, const char* name, size_t input, int since) {
  if (node.opset() < since) return node.Ints(name);
  if (!node.Has(input)) return std::vector<int64_t>();
  return node.Integers(input);
}

// 0 keeps the axis unless allowzero; one may be -1.
Result ReshapeTo(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(Sizes shape, node.SizesIn(1));
  const bool keep = node.Int("allowzero") == 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != 0 || !keep) continue;
    if (static_cast<int64_t>(axis) >= x.rank())
      return node.Bad(absl::StrCat("axis ", axis, " is to be as the input's, which has none"));
    shape[axis] = x.size(static_cast<int64_t>(axis));
  }
  if (std::count(shape.begin(), shape.end(), Size(-1)) > 1) return node.Bad("more than one axis is -1");
  return Reshape(x, shape);
}

Result TransposeAxes(Node& node) {
  std::vector<int64_t> order = AllAxes(node.In(0).rank());
  std::reverse(order.begin(), order.end());
  return Permute(node.In(0), node.Ints("perm", order));
}

Result SqueezeAxes(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(std::vector<int64_t> axes, ListOf(node, "axes", 1, 13));
  const bool all = axes.empty() && !node.Has(1) && !node.HasAttribute("axes");
  KILN_ASSIGN_OR_RETURN(axes, node.Axes(axes, x.rank()));
  Sizes shape;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (named && x.size(axis) != 1)
      return node.Bad(absl::StrCat("axis ", axis, " of ", ShapeText(x.sizes()), " is not 1"));
    if (!named && !(all && x.size(axis) == 1)) shape.push_back(x.size(axis));
  }
  return Reshape(x, shape);
}

Result UnsqueezeAxes(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(std::vector<int64_t> axes, ListOf(node, "axes", 1, 13));
  const int64_t rank = x.rank() + static_cast<int64_t>(axes.size());
  KILN_ASSIGN_OR_RETURN(axes, node.Axes(axes, rank));
  Sizes shape;
  for (int64_t axis = 0, next = 0; axis < rank; ++axis) {
    shape.push_back(std::find(axes.begin(), axes.end(), axis) != axes.end() ? Size(1) : x.size(next++));
  }
  return Reshape(x, shape);
}

Result FlattenTo(Node& node) {
  const Tensor x = node.In(0);
  // A negative one counts from the rank, so the end of the axes has no negative name.
  const int64_t named = node.Int("axis", 1);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, named < 0 ? node.Axis(named, x.rank()) : node.Axis(named, x.rank() + 1));
  Size rows = 1, columns = 1;
  for (int64_t i = 0; i < x.rank(); ++i) (i < axis ? rows : columns) = (i < axis ? rows : columns) * x.size(i);
  return Reshape(x, {rows, columns});
}

Result ExpandTo(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const Sizes shape, node.SizesIn(1));
  const auto whole = BroadcastShape(x.sizes(), shape);
  if (!whole) return node.Bad(absl::StrCat(ShapeText(x.sizes()), " and ", ShapeText(shape), " do not broadcast"));
  return BroadcastTo(x, *whole);
}

Result Tile(Node& node) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> counts, node.Integers(1));
  return Repeat(node.In(0), counts);
}

Result ConcatAll(Node& node) {
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), node.In(0).rank()));
  return Joined(node.Tensors(), axis);
}

// Into the sizes given, or into so many equal parts of which the last may be smaller.
Result Split(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), x.rank()));
  Sizes parts;
  if (node.opset() >= 13 && node.Has(1)) {
    KILN_ASSIGN_OR_RETURN(parts, node.SizesIn(1));
  } else if (node.HasAttribute("split")) {
    parts = Sizes(node.Ints("split"));
  } else {
    const int64_t count = node.Int("num_outputs", static_cast<int64_t>(node.outputs()));
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
    if (count < 1 || count != static_cast<int64_t>(node.outputs()))
      return node.Bad("the parts are not as many as the outputs");
    const int64_t each = (size + count - 1) / count;
    for (int64_t i = 0; i < count; ++i) parts.push_back(std::max<int64_t>(0, std::min(each, size - i * each)));
  }
  if (parts.size() < node.outputs()) return node.Bad("there are fewer parts than outputs");
  std::vector<Tensor> tensors;
  Size begin = 0;
  for (const Size& part : parts) {
    tensors.push_back(Part(x, axis, begin, begin + part));
    begin += part;
  }
  return tensors;
}

// Backwards is forwards on the flipped axis.
Result SliceAxes(Node& node) {
  Tensor x = node.In(0);
  const bool lists = node.opset() >= 10;
  Sizes starts, ends;
  std::vector<int64_t> axes, steps;
  if (lists) {
    KILN_ASSIGN_OR_RETURN(starts, node.SizesIn(1));
    KILN_ASSIGN_OR_RETURN(ends, node.SizesIn(2));
    if (node.Has(3)) {
      KILN_ASSIGN_OR_RETURN(axes, node.Integers(3));
    }
    if (node.Has(4)) {
      KILN_ASSIGN_OR_RETURN(steps, node.Integers(4));
    }
  } else {
    starts = Sizes(node.Ints("starts"));
    ends = Sizes(node.Ints("ends"));
    axes = node.Ints("axes");
  }
  if (axes.empty()) axes = AllAxes(static_cast<int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (axes.size() != starts.size() || ends.size() != starts.size() || steps.size() != starts.size()) {
    return node.Bad("starts, ends, axes and steps are not equally many");
  }
  KILN_ASSIGN_OR_RETURN(axes, node.Axes(axes, x.rank()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto size = x.size(axes[i]).number(), from = starts[i].number(), to = ends[i].number();
    if (!size || !from || !to) {
      if (steps[i] != 1) return node.Refuse("a step over a size that depends on variables");
      x = Slice(x, axes[i], starts[i], ends[i]);
      continue;
    }
    if (steps[i] == 0 || steps[i] == std::numeric_limits<int64_t>::min()) return node.Bad("a step of 0");
    const bool back = steps[i] < 0;
    const auto clipped = [&](int64_t at, int64_t least, int64_t most) {
      return std::clamp(at < 0 ? std::max(at, -*size - 1) + *size : at, least, most);
    };
    int64_t begin = clipped(*from, 0, back ? *size - 1 : *size),
            end = clipped(*to, back ? -1 : 0, back ? *size - 1 : *size);
    if (*to < -*size && back) end = -1;
    if (back) {
      x = Flip(x, {axes[i]});
      begin = *size - 1 - begin;
      end = *size - 1 - end;
    }
    x = *size == 0
            ? x
            : Slice(x, axes[i], begin, std::max(begin, end), std::min(std::abs(steps[i]), std::max<int64_t>(1, *size)));
  }
  return x;
}

// Where each element of a padded axis is found; -1 for the fill.
std::vector<int64_t> PaddedPlaces(const std::string& mode, int64_t size, int64_t before, int64_t after) {
  std::vector<int64_t> places;
  for (int64_t i = -before; i < size + after; ++i) {
    int64_t at = i;
    if (mode == "edge") at = std::clamp<int64_t>(i, 0, size - 1);
    if (mode == "wrap") at = ((i % size) + size) % size;
    if (mode == "reflect" && size > 1) {
      const int64_t period = 2 * (size - 1);
      at = ((i % period) + period) % period;
      at = at < size ? at : period - at;
    }
    if (mode == "reflect" && size == 1) at = 0;
    places.push_back(at);
  }
  return places;
}

Result PadAxes(Node& node) {
  Tensor x = node.In(0);
  const std::string mode = node.Text("mode", "constant");
  Sizes pads;
  if (node.opset() < 11) {
    pads = Sizes(node.Ints("pads"));
  } else {
    if (!node.Has(1)) return node.Bad("pads are missing");
    KILN_ASSIGN_OR_RETURN(pads, node.SizesIn(1));
  }
  std::vector<int64_t> axes = AllAxes(x.rank());
  if (node.Has(3)) {
    KILN_ASSIGN_OR_RETURN(axes, node.Integers(3));
    KILN_ASSIGN_OR_RETURN(axes, node.Axes(axes, x.rank()));
  }
  if (pads.size() != 2 * axes.size()) return node.Bad(absl::StrCat(pads.size(), " pads for ", axes.size(), " axes"));
  AxisRanges more(static_cast<size_t>(x.rank()), {0, 0}), less(static_cast<size_t>(x.rank()), {0, 0});
  for (size_t i = 0; i < axes.size(); ++i) {
    const Size before = pads[i], after = pads[i + axes.size()];
    (before.least() < 0 ? less : more)[axes[i]].first = before;
    (after.least() < 0 ? less : more)[axes[i]].second = after;
  }
  AxisRanges kept;
  for (int64_t axis = 0; axis < x.rank(); ++axis)
    kept.push_back({0 - less[axis].first, x.size(axis) + less[axis].second});
  x = client::Shrink(x, kept);
  if (mode == "constant") {
    const Tensor ones = x.valid() ? node.graph().Full(x.sizes(), 1, v1::BOOL) : x;
    const Known* fill = node.Has(2) ? node.Find(node.In(2)) : nullptr;
    const auto value = fill != nullptr ? fill->Reals() : std::nullopt;
    if (value && value->size() == 1) return Pad(x, more, (*value)[0]);
    if (!node.Has(2)) return Pad(x, more, node.opset() < 11 ? node.Float("value") : 0.0);
    return Where(Pad(ones, more), Pad(x, more), Reshape(node.In(2), Sizes()));
  }
  if (mode != "edge" && mode != "reflect" && mode != "wrap") return node.Bad("mode is constant, edge, reflect or wrap");
  for (int64_t axis = 0; axis < static_cast<int64_t>(more.size()); ++axis) {
    const auto before = more[axis].first.number(), after = more[axis].second.number();
    if (before == 0 && after == 0) continue;
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
    if (!before || !after || size == 0 || *before > (int64_t{1} << 20) || *after > (int64_t{1} << 20)) {
      return node.Refuse("pads that depend on variables, of an empty axis, or of more than 2^20");
    }
    x = IndexSelect(x, axis, node.Make(PaddedPlaces(mode, size, *before, *after), v1::INT32));
  }
  return x;
}

Result DepthToSpace(Node& node) {
  const Tensor x = node.In(0);
  const int64_t block = node.Int("blocksize");
  if (x.rank() != 4 || block < 1 || block > 1 << 20) return node.Bad("takes (n, c, h, w) and a block of at least 1");
  KILN_ASSIGN_OR_RETURN(const int64_t channels, node.Dim(x, 1));
  if (channels % (block * block) != 0) return node.Bad("the channels are not whole blocks");
  const Size n = x.size(0), h = x.size(2), w = x.size(3);
  const int64_t depth = channels / (block * block);
  const bool crd = node.Text("mode", "DCR") == "CRD";
  const Tensor split = crd ? Permute(Reshape(x, {n, depth, block, block, h, w}), {0, 1, 4, 2, 5, 3})
                           : Permute(Reshape(x, {n, block, block, depth, h, w}), {0, 3, 4, 1, 5, 2});
  return Reshape(split, {n, depth, h * block, w * block});
}

Result SpaceToDepth(Node& node) {
  const Tensor x = node.In(0);
  const int64_t block = node.Int("blocksize");
  if (x.rank() != 4 || block < 1 || block > 1 << 20) return node.Bad("takes (n, c, h, w) and a block of at least 1");
  KILN_ASSIGN_OR_RETURN(const int64_t h, node.Dim(x, 2));
  KILN_ASSIGN_OR_RETURN(const int64_t w, node.Dim(x, 3));
  const Size n = x.size(0), c = x.size(1);
  const std::string mode = node.Text("mode", "DCR");
  const Tensor split = Reshape(x, {n, c, h / block, block, w / block, block});
  return Reshape(
      Permute(split, mode == "CRD" ? std::vector<int64_t>{0, 1, 3, 5, 2, 4} : std::vector<int64_t>{0, 3, 5, 1, 2, 4}),
      {n, c * block * block, h / block, w / block});
}

Result CenterCropPad(Node& node) {
  Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, node.Integers(1));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.Axes(node.Ints("axes", AllAxes(x.rank())), x.rank()));
  if (axes.size() != shape.size()) return node.Bad("the shape and the axes are not equally many");
  for (size_t i = 0; i < axes.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axes[i]));
    if (shape[i] <= size) {
      const int64_t begin = (size - shape[i]) / 2;
      x = Part(x, axes[i], begin, begin + shape[i]);
    } else {
      AxisRanges padding(static_cast<size_t>(x.rank()), {0, 0});
      const int64_t before = (shape[i] - size) / 2;
      padding[axes[i]] = {before, shape[i] - size - before};
      x = Pad(x, padding);
    }
  }
  return x;
}

// Training drops elements by chance, unless the ratio is 0.
Result Dropout(Node& node) {
  bool trains = false;
  if (node.Has(2)) {
    KILN_ASSIGN_OR_RETURN(const int64_t mode, node.Integer(2));
    trains = mode != 0;
  }
  if (trains) {
    std::vector<double> ratio = {0.5};
    if (node.Has(1)) {
      KILN_ASSIGN_OR_RETURN(ratio, node.Reals(1));
    }
    if (ratio != std::vector<double>{0}) return node.Refuse("training draws random numbers");
  }
  return std::vector<Tensor>{node.In(0), node.graph().Full(node.In(0).sizes(), 1, v1::BOOL)};
}

Result Identity(Node& node) { return node.At(0); }

constexpr OpRow kRows[] = {
    {"Reshape", 5, ReshapeTo, 2, 2},
    {"Transpose", 1, TransposeAxes, 1, 1},
    {"Squeeze", 1, SqueezeAxes, 1, 2},
    {"Unsqueeze", 1, UnsqueezeAxes, 1, 2},
    {"Flatten", 1, FlattenTo, 1, 1},
    {"Expand", 8, ExpandTo, 2, 2},
    {"Tile", 6, Tile, 2, 2},
    {"Concat", 4, ConcatAll, 1, kAny},
    {"Split", 2, Split, 1, 2},
    {"Slice", 1, SliceAxes, 1, 5},
    {"Pad", 2, PadAxes, 1, 4},
    {"DepthToSpace", 1, DepthToSpace, 1, 1},
    {"SpaceToDepth", 1, SpaceToDepth, 1, 1},
    {"CenterCropPad", 18, CenterCropPad, 2, 2},
    {"Identity", 1, Identity, 1, 1, kStandard, true},
    {"Dropout", 7, Dropout, 1, 3},
};

}  // namespace

OpRows MovementOps() { return kRows; }

}  // namespace kiln::onnx
