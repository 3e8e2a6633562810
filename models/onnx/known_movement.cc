// Movement ops and REDUCE on known values.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/onnx/known_ops.h"

namespace kiln::onnx {
namespace {

using client::Shape;
using client::Size;

int64_t Count(const Shape& shape) { return client::ElementCount(shape).value_or(0); }

std::vector<int64_t> Strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// Coordinates of the i-th element.
std::vector<int64_t> Coordinates(const Shape& shape, int64_t i) {
  std::vector<int64_t> at(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    at[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return at;
}

int64_t Dot(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void Copy(const Known& from, int64_t place, Known& to) {
  if (to.IsReal()) {
    to.reals.push_back(from.reals[place]);
  } else {
    to.integers.push_back(from.integers[place]);
  }
}

// The value of an element that no element of the source is.
void Fill(const v1::UOp& uop, Known& to) {
  const v1::ConstArg& fill = uop.pad().fill();
  double real = fill.f();
  int64_t integer = 0;
  if (fill.value_case() == v1::ConstArg::kB) integer = fill.b() ? 1 : 0;
  if (fill.value_case() == v1::ConstArg::kI) integer = fill.i();
  if (fill.value_case() == v1::ConstArg::kU) integer = static_cast<int64_t>(fill.u());
  if (fill.value_case() != v1::ConstArg::kF) real = static_cast<double>(integer);
  if (to.IsReal()) {
    to.reals.push_back(Rounded(to.dtype, real));
  } else {
    to.integers.push_back(integer);
  }
}

std::optional<Known> Reduce(const v1::UOp& uop, const Known& x, Known result) {
  const v1::Op op = uop.reduce().op();
  const auto numbers = x.Numbers();
  if ((!x.IsReal() && !numbers) || x.dtype == v1::UINT64) return std::nullopt;
  const int64_t count = Count(result.shape), total = x.count();
  const bool is_bool = x.dtype == v1::BOOL;
  const auto least_integer =
      client::IsSigned(x.dtype) ? -static_cast<int64_t>(client::GreatestInteger(x.dtype)) - 1 : int64_t{0};
  std::vector<double> reals(x.IsReal() ? count : 0, op == v1::ADD   ? 0
                                                    : op == v1::MUL ? 1
                                                                    : -std::numeric_limits<double>::infinity());
  std::vector<int64_t> integers(x.IsReal() ? 0 : count, op == v1::ADD ? 0 : op == v1::MUL ? 1 : least_integer);
  const std::vector<int64_t> strides = Strides(result.shape);
  for (int64_t i = 0; i < total; ++i) {
    std::vector<int64_t> at = Coordinates(x.shape, i);
    for (const int64_t axis : uop.reduce().axis()) at[axis] = 0;
    const int64_t place = Dot(at, strides);
    if (x.IsReal()) {
      double& sum = reals[place];
      const double value = x.reals[i];
      sum = op == v1::ADD ? sum + value : op == v1::MUL ? sum * value : std::isnan(value) || value > sum ? value : sum;
    } else {
      int64_t& sum = integers[place];
      const auto value = static_cast<uint64_t>((*numbers)[i]), before = static_cast<uint64_t>(sum);
      if (is_bool) {
        sum = op == v1::MUL ? sum & static_cast<int64_t>(value) : sum | static_cast<int64_t>(value);
      } else {
        sum = op == v1::MAX ? std::max(sum, (*numbers)[i])
                            : static_cast<int64_t>(op == v1::ADD ? before + value : before * value);
      }
    }
  }
  for (const double real : reals) result.reals.push_back(Rounded(result.dtype, real));
  for (const int64_t integer : integers) result.integers.push_back(*Wrapped(result.dtype, Size(integer)));
  return result;
}

// Indices for the first axes: each a scalar or a vector.
std::optional<Known> Index(const std::vector<const Known*>& sources, Known result) {
  const Known& x = *sources[0];
  std::vector<std::vector<int64_t>> indices;
  for (size_t i = 1; i < sources.size(); ++i) {
    const auto numbers = sources[i]->Numbers();
    if (!numbers) return std::nullopt;
    indices.push_back(*numbers);
  }
  const std::vector<int64_t> strides = Strides(x.shape);
  const int64_t count = Count(result.shape);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<int64_t> at = Coordinates(result.shape, i);
    size_t next = 0;
    int64_t place = 0;
    bool inside = true;
    for (size_t axis = 0; axis < x.shape.size(); ++axis) {
      const bool scalar = axis < indices.size() && sources[axis + 1]->shape.empty();
      const int64_t here = scalar ? 0 : at[next++];
      const int64_t index = axis < indices.size() ? indices[axis][here] : here;
      inside = inside && index >= 0 && index < x.shape[axis];
      place += index * strides[axis];
    }
    if (inside) {
      Copy(x, place, result);
    } else if (result.IsReal()) {
      result.reals.push_back(0);
    } else {
      result.integers.push_back(0);
    }
  }
  return result;
}

std::optional<Known> Stack(const std::vector<const Known*>& sources, Known result) {
  for (const Known* source : sources) {
    for (int64_t i = 0; i < source->count(); ++i) {
      if (source->IsReal() != result.IsReal()) return std::nullopt;
      Copy(*source, i, result);
    }
  }
  return result;
}

}  // namespace

std::optional<Known> KnownMovement(const v1::UOp& uop, const std::vector<const Known*>& sources, v1::DType dtype,
                                   const Shape& shape) {
  Known result{dtype, shape, {}, {}};
  if (uop.op() == v1::STACK) return Stack(sources, std::move(result));
  if (sources.empty()) return std::nullopt;
  const Known& x = *sources[0];
  const int64_t count = Count(shape);
  const std::vector<int64_t> strides = Strides(x.shape);
  std::vector<int64_t> offset(shape.size(), 0);
  switch (uop.op()) {
    case v1::RESHAPE:
    case v1::CONTIGUOUS:
    case v1::DETACH:
      result.integers = x.integers;
      result.reals = x.reals;
      return result;
    case v1::REDUCE: return Reduce(uop, x, std::move(result));
    case v1::INDEX: return Index(sources, std::move(result));
    case v1::PAD:
    case v1::SHRINK: {
      const auto numbers = sources[1]->Numbers();
      if (!numbers || numbers->size() != shape.size()) return std::nullopt;
      offset = *numbers;
      break;
    }
    case v1::EXPAND:
    case v1::PERMUTE:
    case v1::FLIP: break;
    default: return std::nullopt;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> at = Coordinates(shape, i);
    if (uop.op() == v1::PERMUTE) {
      const std::vector<int64_t> here = at;
      for (size_t axis = 0; axis < at.size(); ++axis) at[uop.axes().axis(static_cast<int>(axis))] = here[axis];
    }
    bool inside = true;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      if (uop.op() == v1::EXPAND && x.shape[axis] == 1) at[axis] = 0;
      if (uop.op() == v1::FLIP && uop.flip().axis(static_cast<int>(axis))) at[axis] = shape[axis] - 1 - at[axis];
      if (uop.op() == v1::SHRINK) at[axis] += offset[axis];
      if (uop.op() == v1::PAD) at[axis] -= offset[axis];
      inside = inside && at[axis] >= 0 && at[axis] < x.shape[axis];
    }
    if (inside) {
      Copy(x, Dot(at, strides), result);
    } else {
      Fill(uop, result);
    }
  }
  return result;
}

}  // namespace kiln::onnx
