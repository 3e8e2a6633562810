// Images read at places that the program computes.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/spatial.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// Mirrored at both ends as often as it takes.
Tensor Reflected(Tensor x, double least, double greatest) {
  const double range = greatest - least;
  if (range <= 0) return Filled(x, least);
  const Tensor from = Abs(x - least);
  const Tensor rest = from - Floor(from * (1 / (2 * range))) * (2 * range);
  return Where(rest > range, 2 * range - rest, rest) + least;
}

// One of the neighbours along one axis: where, how much of it, and whether it is in the image.
struct Tap {
  Tensor place, weight, inside;
};

std::vector<Tap> TapsOf(const std::string& mode, const std::string& padding, Tensor x, int64_t size, double least,
                        double greatest) {
  std::vector<Tap> taps;
  const Tensor low = mode == "nearest" ? x : Floor(x), rest = x - low;
  std::vector<Tensor> weights = {Filled(x, 1)};
  double first = 0;
  if (mode == "linear") weights = {1.0 - rest, rest};
  if (mode == "cubic") {
    // Keys' kernel with a = -0.75, of the distances 1 + t, t, 1 - t and 2 - t.
    const auto near = [](Tensor t) { return (1.25 * t - 2.25) * t * t + 1.0; };
    const auto far = [](Tensor t) { return ((-0.75 * t + 3.75) * t - 6.0) * t + 3.0; };
    weights = {far(rest + 1.0), near(rest), near(1.0 - rest), far(2.0 - rest)};
    first = -1;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor at = low + (first + static_cast<double>(i));
    const Tensor inside = (at >= 0.0) & (at <= static_cast<double>(size - 1));
    Tensor place = padding == "reflection" ? Trunc(Reflected(at, least, greatest)) : at;
    place = Cast(Clamp(place, 0, static_cast<double>(size - 1)), v1::INT64);
    taps.push_back({place, weights[i], inside});
  }
  return taps;
}

// x (batch, channels, d…); grid (batch, o…, axes), each a place from -1 to 1, the last axis first.
Result GridSample(Node& node) {
  const Tensor x = node.In(0), grid = node.In(1);
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(x));
  KILN_ASSIGN_OR_RETURN(const Shape places, node.Dims(grid));
  const auto axes = static_cast<int64_t>(shape.size()) - 2;
  if (axes < 1 || places.size() != shape.size() || places.back() != axes || places[0] != shape[0]) {
    return node.Bad(absl::StrCat("a grid of ", ShapeText(places), " for ", ShapeText(shape)));
  }
  std::string mode = node.Text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string padding = node.Text("padding_mode", "zeros");
  if (mode != "linear" && mode != "nearest" && mode != "cubic") return node.Bad("mode is linear, nearest or cubic");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return node.Bad("padding_mode is zeros, border or reflection");
  const bool corners = node.Int("align_corners") != 0;
  int64_t count = 1, area = 1;
  for (size_t i = 1; i + 1 < places.size(); ++i) count *= places[i];
  for (int64_t i = 0; i < axes; ++i) area *= shape[i + 2];
  if (area == 0) return node.Refuse("an image of nothing");

  std::vector<std::vector<Tap>> taps;
  for (int64_t i = 0; i < axes; ++i) {
    const auto size = static_cast<double>(shape[i + 2]);
    const double least = corners ? 0 : -0.5, greatest = corners ? size - 1 : size - 0.5;
    const Tensor column = Part(grid, grid.rank() - 1, axes - 1 - i, axes - i);
    const Tensor from = Reshape(Cast(column, v1::FLOAT32), {shape[0], count}) + 1.0;
    Tensor at = corners ? from * (0.5 * (size - 1)) : (from * size - 1.0) * 0.5;
    if (mode == "nearest") at = RoundEven(at);
    const Tensor beyond = (at < least) | (at > greatest);
    if (padding == "border") at = Where(beyond, Clamp(at, 0, size - 1), at);
    if (padding == "reflection") at = Where(beyond, Reflected(at, least, greatest), at);
    if (padding == "reflection" && mode == "nearest") at = Trunc(at);
    taps.push_back(TapsOf(mode, padding, at, shape[i + 2], least, greatest));
  }
  // Pixels as rows of channels, and every combination of the axes' neighbours.
  std::vector<int64_t> order = AllAxes(x.rank());
  order.erase(order.begin() + 1);
  order.push_back(1);
  const Tensor rows = Reshape(Permute(Cast(x, v1::FLOAT32), order), {shape[0] * area, shape[1]});
  const Tensor first = Unsqueeze(node.graph().Arange(shape[0], v1::INT64) * area, 1);
  size_t combinations = 1;
  for (const auto& axis : taps) combinations *= axis.size();
  Tensor sum;
  for (size_t n = 0; n < combinations; ++n) {
    Tensor place, weight;
    size_t rest = n;
    for (int64_t i = 0; i < axes; ++i) {
      const Tap& tap = taps[i][rest % taps[i].size()];
      rest /= taps[i].size();
      const Tensor own = padding == "zeros" ? Where(tap.inside, tap.weight, 0.0) : tap.weight;
      place = place.valid() ? place * shape[i + 2] + tap.place : tap.place;
      weight = weight.valid() ? weight * own : own;
    }
    const Tensor pixels = Reshape(Index(rows, {Reshape(place + first, {-1})}), {shape[0], count, shape[1]});
    const Tensor part = pixels * Unsqueeze(weight, 2);
    sum = sum.valid() ? sum + part : part;
  }
  Sizes result = {shape[0], shape[1]};
  result.insert(result.end(), places.begin() + 1, places.end() - 1);
  return Cast(Reshape(Permute(sum, {0, 2, 1}), result), x.dtype());
}

// The places of an image's pixels, from -1 to 1, times a matrix.
Result AffineGrid(Node& node) {
  const Tensor theta = node.In(0);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> size, node.Integers(1));
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  if ((axes != 2 && axes != 3) || theta.rank() != 3 || theta.size(1) != axes || theta.size(2) != axes + 1)
    return node.Bad("takes (batch, 2, 3) for images, (batch, 3, 4) for volumes");
  const Shape image(size.begin() + 2, size.end());
  const std::optional<int64_t> count = ElementCount(image);
  if (!count || *count > (int64_t{1} << 24)) return node.Bad("an image of no size, or of more than 2^24 pixels");
  Sizes result = {theta.size(0)};
  std::vector<Tensor> columns;
  for (int64_t axis = axes - 1; axis >= 0; --axis) {
    const auto n = static_cast<double>(image[axis]);
    const Tensor i = node.graph().Arange(image[axis], v1::FLOAT32);
    const bool corners = node.Int("align_corners") != 0;
    const Tensor place = corners ? i * (n > 1 ? 2 / (n - 1) : 0) - 1.0 : i * (2 / n) + (1 / n - 1);
    columns.push_back(Reshape(BroadcastTo(Along(place, axis, axes), image), {*count}));
  }
  columns.push_back(node.graph().Ones({*count}, v1::FLOAT32));
  const Tensor grid = Matmul(Stack(columns, 1), Transpose(Cast(theta, v1::FLOAT32)));
  for (const int64_t one : image) result.push_back(one);
  result.push_back(axes);
  return Cast(Reshape(grid, result), theta.dtype());
}

constexpr OpRow kRows[] = {
    {"GridSample", 16, GridSample, 2, 2},
    {"AffineGrid", 20, AffineGrid, 2, 2},
};

}  // namespace

OpRows SamplingOps() { return kRows; }

}  // namespace kiln::onnx
