// Images of another size. Where each result comes from is computed here: so many elements of the
// axis, each with its weight. The program gathers and adds them, an axis after the other.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <cmath>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

struct Rule {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, outside = 0;
  bool exclude = false, antialias = false;
};

struct AxisRule {
  int64_t axis = 0, size = 0, result = 0;
  double scale = 1, roi_begin = 0, roi_end = 1;
};

// Where on the axis the i-th result lies.
double Coordinate(const Rule& rule, const AxisRule& at, double i) {
  const auto size = static_cast<double>(at.size), real = at.scale * size;
  const double half = (i + 0.5) / at.scale - 0.5;
  if (rule.coordinates == "half_pixel") return half;
  if (rule.coordinates == "pytorch_half_pixel") return at.result > 1 ? half : 0;
  if (rule.coordinates == "align_corners") return real == 1 ? 0 : i * (size - 1) / (real - 1);
  if (rule.coordinates == "asymmetric") return i / at.scale;
  if (rule.coordinates == "half_pixel_symmetric") {
    return size / 2 * (1 - static_cast<double>(at.result) / real) + half;
  }
  // tf_crop_and_resize
  if (at.result == 1) return (at.roi_end - at.roi_begin) * (size - 1) / 2 + at.roi_begin * (size - 1);
  return at.roi_begin * (size - 1) + i * (at.roi_end - at.roi_begin) * (size - 1) / (real - 1);
}

double CubicWeight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((x - 5) * x + 8) * x * a - 4 * a;
  return 0;
}

// Weights of the elements from `first` on, by their distance from the place.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

Taps TapsOf(const Rule& rule, const AxisRule& at, double place) {
  const double low = std::floor(place), rest = place - low;
  Taps taps;
  if (rule.mode == "nearest") {
    const bool up = rest != 0 && (rule.nearest == "ceil" || (rule.nearest == "round_prefer_floor" && rest > 0.5) ||
                                  (rule.nearest == "round_prefer_ceil" && rest >= 0.5));
    return {static_cast<int64_t>(low) + (up ? 1 : 0), {1}};
  }
  const bool cubic = rule.mode == "cubic";
  const double shrink = rule.antialias ? std::min(1.0, at.scale) : 1, reach = cubic ? 2 : 1;
  const auto begin = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  const int64_t end = 2 - begin;
  taps.first = static_cast<int64_t>(low) + begin;
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    const double distance = (static_cast<double>(i) - rest) * shrink;
    double weight = cubic ? CubicWeight(distance, rule.cubic) : std::max(0.0, 1 - std::abs(distance));
    const int64_t where = static_cast<int64_t>(low) + i;
    if (rule.exclude && (where < 0 || where >= at.size)) weight = 0;
    taps.weights.push_back(weight);
    sum += weight;
  }
  if (rule.antialias || rule.exclude) {
    for (double& weight : taps.weights) weight /= sum;
  }
  return taps;
}

absl::StatusOr<Tensor> ResizedAxis(Node& node, Tensor x, const Rule& rule, const AxisRule& at, Tensor& outside) {
  if (at.result == 0 || at.size == 0) return node.Refuse("an axis of no elements");
  if (at.result > (int64_t{1} << 24)) return node.Refuse("more than 2^24 elements on an axis");
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
  std::vector<int64_t> beyond;
  for (int64_t i = 0; i < at.result; ++i) {
    const double place = Coordinate(rule, at, static_cast<double>(i));
    if (!(std::abs(place) < 1e9)) return node.Bad("a scale that leads nowhere");
    const Taps taps = TapsOf(rule, at, place);
    beyond.push_back(place < 0 || place > static_cast<double>(at.size - 1) ? 1 : 0);
    if (taps.weights.size() > 4096) return node.Refuse("more than 4096 elements for one");
    if (places.empty()) {
      places.resize(taps.weights.size());
      weights.resize(taps.weights.size());
    }
    for (size_t tap = 0; tap < taps.weights.size(); ++tap) {
      places[tap].push_back(std::clamp<int64_t>(taps.first + static_cast<int64_t>(tap), 0, at.size - 1));
      weights[tap].push_back(taps.weights[tap]);
    }
  }
  Tensor sum;
  for (size_t tap = 0; tap < places.size(); ++tap) {
    Tensor part = IndexSelect(x, at.axis, node.Make(places[tap], v1::INT32));
    if (rule.mode != "nearest") part = part * Along(node.Make(weights[tap], {at.result}, x.dtype()), at.axis, x.rank());
    sum = sum.valid() ? sum + part : part;
  }
  if (rule.coordinates == "tf_crop_and_resize") {
    const Tensor here = Along(node.Make(beyond, v1::INT32), at.axis, x.rank()) != 0;
    outside = outside.valid() ? outside | here : here;
  }
  return sum;
}

absl::StatusOr<Tensor> Resized(Node& node, Tensor x, const Rule& rule, const std::vector<AxisRule>& axes) {
  if (rule.mode != "nearest" && rule.mode != "linear" && rule.mode != "cubic")
    return node.Bad("mode is nearest, linear or cubic");
  Tensor outside, result = rule.mode == "nearest" ? x : IsFloat(x.dtype()) ? Widened(x) : Cast(x, v1::FLOAT32);
  for (const AxisRule& at : axes) {
    if (at.scale == 1 && at.result == at.size && rule.coordinates != "tf_crop_and_resize") continue;
    KILN_ASSIGN_OR_RETURN(result, ResizedAxis(node, result, rule, at, outside));
  }
  if (outside.valid()) result = Where(outside, rule.outside, result);
  return IsFloat(x.dtype()) || rule.mode == "nearest" ? Cast(result, x.dtype()) : Saturated(result, x.dtype());
}

// How far each axis goes, from scales or from sizes.
absl::StatusOr<std::vector<AxisRule>> AxesOf(Node& node, Tensor x, const std::vector<double>& scales,
                                             std::vector<int64_t> sizes, const std::vector<int64_t>& axes) {
  std::vector<AxisRule> rules;
  if (scales.size() != (sizes.empty() ? axes.size() : 0) && sizes.size() != axes.size())
    return node.Bad("scales or sizes are not one an axis");
  const std::string policy = node.Text("keep_aspect_ratio_policy", "stretch");
  double common = policy == "not_larger" ? 1e300 : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisRule rule;
    rule.axis = axes[i];
    KILN_ASSIGN_OR_RETURN(rule.size, node.Dim(x, axes[i]));
    const auto size = static_cast<double>(std::max<int64_t>(1, rule.size));
    rule.scale = sizes.empty() ? scales[i] : static_cast<double>(sizes[i]) / size;
    if (!(rule.scale > 0) || rule.scale * size > 1e9) return node.Bad(absl::StrCat("a scale of ", rule.scale));
    rule.result = sizes.empty() ? static_cast<int64_t>(std::floor(size * rule.scale)) : sizes[i];
    common = policy == "not_larger" ? std::min(common, rule.scale) : std::max(common, rule.scale);
    rules.push_back(rule);
  }
  if (sizes.empty() || policy == "stretch") return rules;
  for (AxisRule& rule : rules) {
    rule.scale = common;
    rule.result = static_cast<int64_t>(std::floor(common * static_cast<double>(rule.size) + 0.5));
  }
  return rules;
}

// Before opset 11 there were scales alone, and the rule of Upsample.
Result Resize(Node& node) {
  const Tensor x = node.In(0);
  const bool old = node.opset() < 11;
  Rule rule{node.Text("mode", "nearest"),
            node.Text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
            node.Text("nearest_mode", old ? "floor" : "round_prefer_floor"),
            node.Float("cubic_coeff_a", -0.75),
            node.Float("extrapolation_value"),
            node.Int("exclude_outside") != 0,
            node.Int("antialias") != 0};
  static constexpr const char* kCoordinates[] = {"half_pixel", "pytorch_half_pixel",   "align_corners",
                                                 "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize"};
  if (std::find(std::begin(kCoordinates), std::end(kCoordinates), rule.coordinates) == std::end(kCoordinates)) {
    return node.Refuse(absl::StrCat("coordinates by \"", absl::CHexEscape(rule.coordinates.substr(0, 40)), "\""));
  }
  std::vector<double> scales, roi;
  std::vector<int64_t> sizes;
  const size_t at = old ? 1 : 2;
  if (node.Has(at)) {
    KILN_ASSIGN_OR_RETURN(scales, node.Reals(at));
  }
  if (node.Has(3)) {
    KILN_ASSIGN_OR_RETURN(sizes, node.Integers(3));
  }
  if (!sizes.empty()) scales.clear();
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.Axes(node.Ints("axes", AllAxes(x.rank())), x.rank()));
  KILN_ASSIGN_OR_RETURN(std::vector<AxisRule> rules, AxesOf(node, x, scales, sizes, axes));
  if (rule.coordinates == "tf_crop_and_resize") {
    KILN_ASSIGN_OR_RETURN(roi, node.Reals(1));
    if (roi.size() != 2 * axes.size()) return node.Bad("the region is not two numbers an axis");
    for (size_t i = 0; i < rules.size(); ++i) {
      rules[i].roi_begin = roi[i];
      rules[i].roi_end = roi[i + axes.size()];
    }
  }
  KILN_ASSIGN_OR_RETURN(const Tensor result, Resized(node, x, rule, rules));
  return result;
}

Result Upsample(Node& node) {
  const Tensor x = node.In(0);
  std::vector<double> scales = node.Floats("scales");
  if (node.opset() >= 9) {
    if (!node.Has(1)) return node.Bad("the scales are missing");
    KILN_ASSIGN_OR_RETURN(scales, node.Reals(1));
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<AxisRule> rules, AxesOf(node, x, scales, {}, AllAxes(x.rank())));
  KILN_ASSIGN_OR_RETURN(const Tensor result,
                        Resized(node, x, {node.Text("mode", "nearest"), "asymmetric", "floor"}, rules));
  return result;
}

constexpr OpRow kRows[] = {
    {"Resize", 10, Resize, 1, 4},
    {"Upsample", 7, Upsample, 1, 2},
};

}  // namespace

OpRows ResizeOps() { return kRows; }

}  // namespace kiln::onnx
