// Images read at places that are computed: between four pixels, whose shares are by how near they are.
//
// Tested by tests/onnx/places_test.py and tests/onnx/onnx_test.py.
#include "models/onnx/ops/spatial.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// One of two neighbours along an axis: which, and its share, 0 where it is outside of the image.
struct Neighbour {
  Tensor place, share;
};
using Neighbours = std::vector<Neighbour>;

// The four pixels times their shares, one after the other. `rows` (pixels, channels) are those of several images of
// this width; `first` is where each place's image begins. All others are of one shape, P, and each result is P and the
// channels.
std::vector<Tensor> Corners(Tensor rows, Tensor first, const Neighbours& ys, const Neighbours& xs, int64_t width) {
  std::vector<Tensor> corners;
  for (const Neighbour& y : ys) {
    for (const Neighbour& x : xs) {
      const Tensor place = first + y.place * width + x.place, share = Unsqueeze(y.share * x.share, -1);
      if (!place.valid() || !share.valid()) return {Tensor()};
      Sizes shape = place.sizes();
      shape.push_back(rows.size(1));
      corners.push_back(Reshape(Index(rows, {Reshape(place, {-1})}), shape) * share);
    }
  }
  return corners;
}

// (batch, channels, height, width) as rows of channels.
Tensor Rows(Tensor x) { return Reshape(Permute(x, {0, 2, 3, 1}), {x.size(0) * x.size(2) * x.size(3), x.size(1)}); }

// The sizes of (batch, channels, height, width): the batch may depend on variables, and is 0 here.
absl::StatusOr<Shape> ImageOf(Node& node, Tensor x) {
  if (x.rank() != 4)
    return node.Bad(absl::StrCat("takes (batch, channels, height, width), not ", ShapeText(x.sizes())));
  Shape shape = {0};
  for (int64_t axis = 1; axis < 4; ++axis) {
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
    shape.push_back(size);
  }
  return shape;
}

// Up to one pixel outside of the image a place is at its edge; farther away there is nothing.
Neighbours Clipped(Tensor at, int64_t size) {
  const double last = static_cast<double>(size - 1);
  const Tensor inside = (at >= -1.0) & (at <= static_cast<double>(size));
  const Tensor place = Clamp(at, 0, last), low = Floor(place), rest = place - low;
  return {{Cast(low, v1::INT64), Where(inside, 1.0 - rest, 0.0)},
          {Cast(Minimum(low + 1.0, last), v1::INT64), Where(inside, rest, 0.0)}};
}

// Each region of an image becomes one of so many rows and columns. Each of these is read at sampling_ratio places along
// either axis, of which the mean is taken, or the greatest corner.
Result RoiAlign(Node& node) {
  const Tensor x = node.In(0), regions = Cast(node.In(1), v1::FLOAT32), image = node.In(2);
  KILN_ASSIGN_OR_RETURN(const Shape shape, ImageOf(node, x));
  const int64_t height = node.Int("output_height", 1), width = node.Int("output_width", 1);
  const int64_t samples = node.Int("sampling_ratio");
  constexpr int64_t kMost = int64_t{1} << 16;
  if (shape[2] < 1 || shape[3] < 1 || regions.rank() != 2 || regions.size(1) != 4 || image.rank() != 1 ||
      !IsInteger(image.dtype())) {
    return node.Bad("takes (batch, channels, height, width), (regions, 4) and (regions)");
  }
  if (height < 1 || height > kMost || width < 1 || width > kMost)
    return node.Bad("output_height and output_width are from 1 to 2^16");
  if (samples < 1)
    return node.Refuse("sampling_ratio 0: how many places are read depends on the regions; a number of them is taken");
  if (samples > kMost) return node.Bad("sampling_ratio is up to 2^16");
  const std::string mode = node.Text("mode", "avg");
  if (mode != "avg" && mode != "max") return node.Bad("mode is avg or max");
  const std::string by_itself = node.opset() >= 16 ? "half_pixel" : "output_half_pixel";
  const bool half = node.Text("coordinate_transformation_mode", by_itself) == "half_pixel";
  const double scale = node.Float("spatial_scale", 1);
  const Size count = regions.size(0);
  // Where each of the places along an axis is, (regions, cells * samples): `begin` is a region's first column.
  const auto along = [&](int64_t begin, int64_t cells) {
    const auto edge = [&](int64_t column) { return Part(regions, 1, column, column + 1) * scale - (half ? 0.5 : 0.0); };
    const Tensor from = edge(begin);
    Tensor size = edge(begin + 2) - from;
    if (!half) size = Maximum(size, 1.0);
    const double steps = static_cast<double>(cells * samples);
    return from + size * ((node.graph().Arange(cells * samples, v1::FLOAT32) + 0.5) * (1 / steps));
  };
  const auto spread = [&](const Neighbours& neighbours, int64_t axis) {
    const Sizes all = {count, height * samples, width * samples};
    Neighbours wide;
    for (const Neighbour& one : neighbours)
      wide.push_back({BroadcastTo(Unsqueeze(one.place, axis), all), BroadcastTo(Unsqueeze(one.share, axis), all)});
    return wide;
  };
  const Neighbours ys = spread(Clipped(along(1, height), shape[2]), 2);
  const Neighbours xs = spread(Clipped(along(0, width), shape[3]), 1);
  const Tensor first = Unsqueeze(Unsqueeze(Cast(image, v1::INT64) * (shape[2] * shape[3]), 1), 1);
  const std::vector<Tensor> corners = Corners(Rows(Cast(x, v1::FLOAT32)), first, ys, xs, shape[3]);
  Tensor value = corners[0];
  for (size_t i = 1; i < corners.size(); ++i) value = mode == "max" ? Maximum(value, corners[i]) : value + corners[i];
  if (!value.valid()) return value;
  value = Reshape(value, {count, height, samples, width, samples, shape[1]});
  value = mode == "max" ? Max(value, {2, 4}) : Mean(value, {2, 4});
  return Cast(Permute(value, {0, 3, 1, 2}), x.dtype());
}

// Outside of the image all is 0.
Neighbours Zeroed(Tensor at, int64_t size) {
  const double last = static_cast<double>(size - 1);
  const Tensor low = Floor(at), rest = at - low;
  const auto neighbour = [&](Tensor place, Tensor share) {
    const Tensor inside = (place >= 0.0) & (place <= last);
    return Neighbour{Cast(Clamp(place, 0, last), v1::INT64), Where(inside, share, 0.0)};
  };
  return {neighbour(low, 1.0 - rest), neighbour(low + 1.0, rest)};
}

// A convolution whose windows are not of one form: each element of each window is read at an offset of its own, and
// perhaps weighed by a mask.
Result DeformConv(Node& node) {
  const Tensor x = node.In(0), weight = node.In(1);
  if (x.rank() != 4 || weight.rank() != 4) return node.Refuse("other than two spatial axes");
  KILN_ASSIGN_OR_RETURN(const Shape shape, ImageOf(node, x));
  KILN_ASSIGN_OR_RETURN(const Shape filter, node.Dims(weight));
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, x, Shape(filter.begin() + 2, filter.end())));
  const Size batch = x.size(0);
  const int64_t channels = shape[1], out = filter[0], groups = node.Int("group", 1), sets = node.Int("offset_group", 1);
  if (groups < 1 || sets < 1 || channels < 1 || out < 1 || channels % groups != 0 || out % groups != 0 ||
      channels % sets != 0 || filter[1] != channels / groups || filter[2] != window.kernel[0] ||
      filter[3] != window.kernel[1]) {
    return node.Bad(absl::StrCat("an input of ", ShapeText(x.sizes()), " and a weight of ", ShapeText(filter),
                                 " do not fit ", groups, " groups and ", sets, " of offsets"));
  }
  if (shape[2] < 1 || shape[3] < 1) return node.Refuse("an image of nothing");
  const int64_t rows = window.windows[0], columns = window.windows[1], taps = filter[2] * filter[3];
  const Sizes places = {batch, sets, taps, rows, columns};
  if (node.In(2).sizes() != Sizes({batch, Size(sets) * taps * 2, rows, columns}))
    return node.Bad(absl::StrCat("offsets of ", ShapeText(node.In(2).sizes()), " for ", ShapeText(places)));
  if (node.Has(4) && node.In(4).sizes() != Sizes({batch, Size(sets) * taps, rows, columns}))
    return node.Bad(absl::StrCat("a mask of ", ShapeText(node.In(4).sizes()), " for ", ShapeText(places)));
  const Tensor offsets = Reshape(Cast(node.In(2), v1::FLOAT32), {batch, sets, taps, 2, rows, columns});
  Graph& graph = node.graph();
  // Where the windows' elements would be without offsets; axis 0 is the rows.
  const auto at = [&](int64_t axis) {
    const auto steps = [&](int64_t many, int64_t each) {
      return graph.Arange(many, v1::FLOAT32) * static_cast<double>(each);
    };
    const Tensor begin = steps(window.windows[axis], window.stride[axis]) - static_cast<double>(window.before[axis]);
    const Tensor of_tap = Along(steps(filter[axis + 2], window.dilation[axis]), axis, 2);
    const Tensor tap = Reshape(BroadcastTo(of_tap, {filter[2], filter[3]}), {taps});
    return Squeeze(Part(offsets, 3, axis, axis + 1), 3) + (Along(tap, 0, 3) + Along(begin, axis + 1, 3));
  };
  const int64_t area = shape[2] * shape[3], each = channels / sets;
  const Tensor images = Rows(Reshape(Cast(x, v1::FLOAT32), {batch * sets, each, shape[2], shape[3]}));
  const Tensor first = Reshape(graph.Arange(batch * sets, v1::INT64) * area, {batch, sets, 1, 1, 1});
  Tensor read;
  for (const Tensor& corner : Corners(images, first, Zeroed(at(0), shape[2]), Zeroed(at(1), shape[3]), shape[3]))
    read = read.valid() ? read + corner : corner;
  if (node.Has(4)) read = read * Reshape(Cast(node.In(4), v1::FLOAT32), {batch, sets, taps, rows, columns, 1});
  // (batch, sets, taps, rows, columns, each) to a matrix for each group: channels and taps, by places.
  read = Reshape(Permute(read, {0, 1, 5, 2, 3, 4}), {batch, groups, channels / groups * taps, Size(rows) * columns});
  const Tensor filters = Reshape(Cast(weight, v1::FLOAT32), {groups, out / groups, channels / groups * taps});
  const Tensor product = Cast(Reshape(Matmul(filters, read), {batch, out, rows, columns}), x.dtype());
  return node.Has(3) ? product + Along(node.In(3), 1, 4) : product;
}

constexpr OpRow kRows[] = {
    {"RoiAlign", 10, RoiAlign, 3, 3},
    {"DeformConv", 19, DeformConv, 3, 5},
};

}  // namespace

OpRows PlaceOps() { return kRows; }

}  // namespace kiln::onnx
