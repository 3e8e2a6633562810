// Pooling.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <limits>

#include "models/onnx/ops/spatial.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// The kernel's axes joined to one, the last.
Tensor Flat(Tensor windows, const Window& window) {
  Sizes shape(
      windows.sizes().begin(),
      windows.sizes().begin() + std::min<int64_t>(windows.rank(), 2 + static_cast<int64_t>(window.kernel.size())));
  int64_t count = 1;
  for (const int64_t size : window.kernel) count *= size;
  shape.push_back(count);
  return Reshape(windows, shape);
}

// Where each maximum stands: windows of places beside windows of values.
absl::StatusOr<Tensor> PlacesOfMax(Node& node, Tensor x, Tensor values, const Window& window) {
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(x));
  Graph& graph = node.graph();
  Tensor places = Reshape(graph.Arange(*ElementCount(shape), v1::INT64), shape);
  if (node.Int("storage_order") != 0) {
    // Column-major within each image: the spatial axes are counted in the other order.
    Sizes turned = {shape[0], shape[1]};
    std::vector<int64_t> order = {0, 1};
    for (size_t axis = shape.size(); axis-- > 2;) {
      turned.push_back(shape[axis]);
      order.push_back(static_cast<int64_t>(axis));
    }
    places = Permute(Reshape(places, turned), order);
  }
  const Tensor windows = Flat(WindowsOf(Padded(places, window, 0), window), window);
  const Tensor chosen = Unsqueeze(ArgMax(values, -1), -1) == graph.Arange(values.size(-1));
  return Sum(Where(chosen, windows, Filled(windows, 0)), -1);
}

Result MaxPool(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, x));
  const Scalar none = IsFloat(x.dtype())    ? Scalar(-std::numeric_limits<double>::infinity())
                      : IsSigned(x.dtype()) ? Scalar(-static_cast<int64_t>(GreatestInteger(x.dtype())) - 1)
                                            : Scalar(0);
  const Tensor windows = WindowsOf(Padded(x, window, none), window);
  if (!windows.valid()) return windows;
  const Tensor values = Flat(windows, window);
  const Tensor most = Max(values, -1);
  if (!node.Wants(1)) return most;
  KILN_ASSIGN_OR_RETURN(const Tensor places, PlacesOfMax(node, x, values, window));
  return std::vector<Tensor>{most, places};
}

// How many elements each window has: padding counts or not, what ceil_mode adds never.
Tensor Counts(Node& node, Tensor x, const Window& window, bool with_padding) {
  Sizes shape = x.sizes();
  shape[0] = shape[1] = 1;
  Tensor ones = node.graph().Full(shape, 1, Widened(x).dtype());
  if (with_padding) {
    Window inner = window;
    inner.beyond.assign(window.beyond.size(), 0);
    ones = Padded(ones, inner, 1);
    AxisRanges padding(2, {0, 0});
    for (const int64_t more : window.beyond) padding.push_back({0, more});
    ones = Pad(ones, padding, 0);
  } else {
    ones = Padded(ones, window, 0);
  }
  return Sum(Flat(WindowsOf(ones, window), window), -1);
}

}  // namespace

absl::StatusOr<Tensor> Averaged(Node& node, Tensor x) {
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, x));
  const Tensor sum = Sum(Flat(WindowsOf(Padded(Widened(x), window, 0), window), window), -1);
  return Cast(sum / Counts(node, x, window, node.Int("count_include_pad") != 0), x.dtype());
}

namespace {

Result AveragePool(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Tensor mean, Averaged(node, node.In(0)));
  return mean;
}

// The p-th root of the sum of p-th powers.
Tensor Norm(Tensor x, int64_t p, const std::vector<int64_t>& axes, bool keep) {
  const Tensor a = Abs(x);
  if (p == 1) return Sum(a, axes, keep);
  if (p == 2) return Sqrt(Sum(a * a, axes, keep));
  return Pow(Sum(Pow(a, static_cast<double>(p)), axes, keep), 1.0 / static_cast<double>(p));
}

Result LpPool(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, x));
  const int64_t p = node.Int("p", 2);
  if (p < 1) return node.Bad("p is at least 1");
  return Cast(Norm(Flat(WindowsOf(Padded(Widened(x), window, 0), window), window), p, {-1}, false), x.dtype());
}

template <typename F>
Result Global(Node& node, F&& f) {
  const Tensor x = node.In(0);
  if (x.rank() < 3) return node.Bad("takes (batch, channels, d1, …)");
  std::vector<int64_t> axes = AllAxes(x.rank());
  axes.erase(axes.begin(), axes.begin() + 2);
  return Cast(f(Widened(x), axes), x.dtype());
}

constexpr OpRow kRows[] = {
    {"MaxPool", 1, MaxPool, 1, 1},
    {"AveragePool", 1, AveragePool, 1, 1},
    {"LpPool", 2, LpPool, 1, 1},
    {"GlobalMaxPool", 1,
     [](Node& node) {
       return Global(node, [](Tensor x, const std::vector<int64_t>& axes) { return Max(x, axes, true); });
     },
     1, 1},
    {"GlobalAveragePool", 1,
     [](Node& node) {
       return Global(node, [](Tensor x, const std::vector<int64_t>& axes) { return Mean(x, axes, true); });
     },
     1, 1},
    {"GlobalLpPool", 2,
     [](Node& node) -> Result {
       const int64_t p = node.Int("p", 2);
       if (p < 1) return node.Bad("p is at least 1");
       return Global(node, [&](Tensor x, const std::vector<int64_t>& axes) { return Norm(x, p, axes, true); });
     },
     1, 1},
};

}  // namespace

OpRows PoolOps() { return kRows; }

}  // namespace kiln::onnx
