// Fourier transforms, the windows before them, and the bands after them.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <cmath>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

constexpr double kTwoPi = 6.283185307179586;
// A transform is a product with a matrix of so many rows at most.
constexpr int64_t kMaxPoints = 4096;

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), with n one less unless periodic.
Result CosineWindow(Node& node, double a0, double a1, double a2) {
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Integer(0));
  KILN_ASSIGN_OR_RETURN(const v1::DType dtype, DTypeOf(static_cast<int>(node.Int("output_datatype", 1))));
  if (size < 0 || size > (int64_t{1} << 20)) return node.Bad("the size is from 0 to 2^20");
  const double n = static_cast<double>(node.Int("periodic", 1) != 0 ? size : size - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    const double angle = n == 0 ? 0 : kTwoPi * static_cast<double>(i) / n;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return node.Make(values, {size}, dtype);
}

// Real and imaginary parts of a signal, along its last axis.
struct Complex {
  Tensor real, imaginary;
};

// To `count` of the `points` frequencies: a product with cosines, and one with sines.
Complex Transformed(Node& node, const Complex& x, int64_t length, int64_t points, int64_t count, bool inverse) {
  std::vector<double> cosines, sines;
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < length; ++i) {
      const double angle = kTwoPi * static_cast<double>(k * i % points) / static_cast<double>(points);
      cosines.push_back(std::cos(angle));
      sines.push_back(inverse ? std::sin(angle) : -std::sin(angle));
    }
  }
  const v1::DType dtype = v1::FLOAT64;  // What cancels out is then 0 to float32's last place.
  const Tensor c = Transpose(node.Make(cosines, {count, length}, dtype)),
               s = Transpose(node.Make(sines, {count, length}, dtype));
  const Tensor real = Cast(x.real, dtype), imaginary = Cast(x.imaginary, dtype);
  Complex result{Matmul(real, c), Matmul(real, s)};
  if (imaginary.valid()) {
    result.real = result.real - Matmul(imaginary, s);
    result.imaginary = result.imaginary + Matmul(imaginary, c);
  }
  if (inverse) {
    result.real = result.real * (1.0 / static_cast<double>(points));
    result.imaginary = result.imaginary * (1.0 / static_cast<double>(points));
  }
  return result;
}

// The last axis of x is 1, real, or 2, complex.
Result Dft(Node& node) {
  Tensor x = node.In(0);
  int64_t axis = node.Int("axis", 1);
  if (node.opset() >= 20) {
    axis = -2;
    if (node.Has(2)) {
      KILN_ASSIGN_OR_RETURN(axis, node.Integer(2));
    }
  }
  KILN_ASSIGN_OR_RETURN(axis, node.Axis(axis, x.rank()));
  if (x.rank() < 2 || axis == x.rank() - 1)
    return node.Bad("the last axis has the parts of a number and is not transformed");
  KILN_ASSIGN_OR_RETURN(const int64_t length, node.Dim(x, axis));
  const bool inverse = node.Int("inverse") != 0, half = node.Int("onesided") != 0;
  int64_t points = length;
  if (node.Has(1)) {
    KILN_ASSIGN_OR_RETURN(points, node.Integer(1));
  } else if (half && inverse && length <= kMaxPoints) {
    // A longer one is refused as it is: where another axis is empty, an axis may be so long that twice it overflows.
    points = 2 * (length - 1);
  }
  if (points < 1 || points > kMaxPoints)
    return node.Refuse(absl::StrCat("a transform of ", points, " points; up to ", kMaxPoints, " are taken"));
  const v1::DType dtype = x.dtype();
  x = Transpose(Widened(x), axis, x.rank() - 2);
  const int64_t at = x.rank() - 2, last = x.rank() - 1,
                taken = std::min(length, half && inverse ? points / 2 + 1 : points);
  x = Part(x, at, 0, taken);
  const bool complex = x.size(last) == 2;
  Complex parts{Squeeze(Part(x, last, 0, 1), last), complex ? Squeeze(Part(x, last, 1, 2), last) : Tensor()};
  if (half && inverse) {
    // Half of the frequencies stand for all of a real signal. The others are their mirror image, so each counts twice,
    // but for the first and, of an even number, the middle one, which are their own.
    if (!complex || taken < 1)
      return node.Bad("the inverse of a one-sided transform takes complex numbers, at least one");
    std::vector<double> times(static_cast<size_t>(taken), 2);
    times[0] = 1;
    if (points % 2 == 0 && taken == points / 2 + 1) times.back() = 1;
    const Tensor weights = node.Make(times, {taken}, parts.real.dtype());
    const Complex whole{parts.real * weights, parts.imaginary * weights};
    const Tensor signal = Transformed(node, whole, taken, points, points, true).real;
    return Cast(Transpose(Unsqueeze(signal, -1), axis, at), dtype);
  }
  const Complex result = Transformed(node, parts, taken, points, half ? points / 2 + 1 : points, inverse);
  return Cast(Transpose(Stack({result.real, result.imaginary}, -1), axis, at), dtype);
}

// Frames, a step apart, times a window, each transformed.
Result Stft(Node& node) {
  Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t step, node.Integer(1));
  int64_t size = 0;
  if (node.Has(3)) {
    KILN_ASSIGN_OR_RETURN(size, node.Integer(3));
  }
  if (node.Has(2)) {
    KILN_ASSIGN_OR_RETURN(size, node.Dim(node.In(2), 0));
  }
  if (size < 1 || size > kMaxPoints || step < 1)
    return node.Refuse(absl::StrCat("frames of ", size, " points; up to ", kMaxPoints, " are taken"));
  if (x.rank() == 3 && x.size(2) == 1) x = Squeeze(x, 2);
  if (x.rank() != 2) return node.Refuse("a complex signal");
  Tensor frames = SlidingWindow(Widened(x), 1, {.size = size, .stride = step});
  if (node.Has(2)) frames = frames * Widened(node.In(2));
  const bool half = node.Int("onesided", 1) != 0;
  const Complex result = Transformed(node, {frames, Tensor()}, size, size, half ? size / 2 + 1 : size, false);
  return Cast(Stack({result.real, result.imaginary}, -1), x.dtype());
}

// Which frequencies of a transform a band of hearing is made of, and by how much: triangles whose corners are equally
// far from each other on the mel scale.
Result MelWeightMatrix(Node& node) {
  KILN_ASSIGN_OR_RETURN(const int64_t bands, node.Integer(0));
  KILN_ASSIGN_OR_RETURN(const int64_t points, node.Integer(1));
  KILN_ASSIGN_OR_RETURN(const int64_t rate, node.Integer(2));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> lower, node.Reals(3));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> upper, node.Reals(4));
  KILN_ASSIGN_OR_RETURN(const v1::DType dtype, DTypeOf(static_cast<int>(node.Int("output_datatype", 1))));
  constexpr int64_t kMost = int64_t{1} << 20, kMostElements = int64_t{1} << 24;
  if (bands < 1 || bands > kMost || points < 1 || points > kMost || bands * (points / 2 + 1) > kMostElements)
    return node.Bad("bands and points are from 1 to 2^20, and their product to 2^24");
  if (rate < 1 || lower.size() != 1 || upper.size() != 1 || !(lower[0] >= 0 && lower[0] < upper[0]) ||
      !(upper[0] <= static_cast<double>(rate) / 2)) {
    return node.Bad("the edges are from 0 to half of the sample rate, the lower one first");
  }
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = mel(lower[0]), step = (mel(upper[0]) - first) / static_cast<double>(bands + 2);
  const int64_t frequencies = points / 2 + 1;
  const auto corner = [&](int64_t i) {
    const double hertz = 700 * (std::pow(10, (first + static_cast<double>(i) * step) / 2595) - 1);
    const double at = std::floor(static_cast<double>(points + 1) * hertz / static_cast<double>(rate));
    return std::clamp<int64_t>(static_cast<int64_t>(at), 0, frequencies - 1);
  };
  KILN_RETURN_IF_ERROR(node.MayMake(frequencies * bands, dtype));
  std::vector<double> matrix(static_cast<size_t>(frequencies * bands));
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t low = corner(band), middle = corner(band + 1), high = corner(band + 2);
    const auto set = [&](int64_t at, int64_t part, int64_t whole) {
      matrix[static_cast<size_t>(at * bands + band)] =
          whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
    };
    for (int64_t i = low; i <= middle; ++i) set(i, i - low, middle - low);
    for (int64_t i = middle; i < high; ++i) set(i, high - i, high - middle);
  }
  return node.Make(matrix, {frequencies, bands}, dtype);
}

constexpr OpRow kRows[] = {
    {"HannWindow", 17, [](Node& node) { return CosineWindow(node, 0.5, 0.5, 0); }, 1, 1},
    {"HammingWindow", 17, [](Node& node) { return CosineWindow(node, 25.0 / 46, 1 - 25.0 / 46, 0); }, 1, 1},
    {"BlackmanWindow", 17, [](Node& node) { return CosineWindow(node, 0.42, 0.5, 0.08); }, 1, 1},
    {"DFT", 17, Dft, 1, 3},
    {"STFT", 17, Stft, 2, 4},
    {"MelWeightMatrix", 17, MelWeightMatrix, 5, 5},
};

}  // namespace

OpRows SignalOps() { return kRows; }

}  // namespace kiln::onnx
