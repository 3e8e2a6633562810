// Movement ops. Most read one strided view of their source; the others place or
// pick elements one by one.
#include <cstring>
#include <utility>

#include "base/check.h"
#include "compiler/interp/eval.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

void CopyElement(const Tensor& from, int64_t i, Tensor& to, int64_t j) {
  to.bits[j] = from.bits[i];
  to.valid[j] = from.valid[i];
}

Tensor View(const UOp& uop, const Tensor& x, const Shape& strides, int64_t offset) {
  Tensor result(x.dtype, uop.shape());
  int64_t i = 0;
  for (Odometer at(result.shape); !at.done(); at.Next()) CopyElement(x, offset + at.Dot(strides), result, i++);
  return result;
}

Tensor Permute(const UOp& uop, const Tensor& x) {
  const Shape from = Strides(x.shape);
  Shape strides;
  for (int64_t axis : uop.arg_as<AxesArg>().axes) strides.push_back(from[axis]);
  return View(uop, x, strides, 0);
}

Tensor Flip(const UOp& uop, const Tensor& x) {
  Shape strides = Strides(x.shape);
  const auto& flags = uop.arg_as<AxesArg>().axes;
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (!flags[i]) continue;
    offset += strides[i] * (x.shape[i] - 1);
    strides[i] = -strides[i];
  }
  return View(uop, x, strides, offset);
}

Shape Offsets(const UOp& uop) { return *ConstInts(uop.src(1)); }

Tensor Shrink(const UOp& uop, const Tensor& x) {
  const Shape strides = Strides(x.shape);
  const Shape offsets = Offsets(uop);
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) offset += strides[i] * offsets[i];
  return View(uop, x, strides, offset);
}

Tensor Pad(const UOp& uop, const Tensor& x, OutOfRange outside) {
  Tensor result(x.dtype, uop.shape());
  const auto* fill = std::get_if<ConstArg>(&uop.arg());
  if (fill != nullptr && outside == OutOfRange::kZero) {
    for (int64_t i = 0; i < result.size(); ++i) result.Set(i, fill->bits);
  }
  const Shape strides = Strides(result.shape);
  const Shape offsets = Offsets(uop);
  int64_t corner = 0;
  for (size_t i = 0; i < strides.size(); ++i) corner += strides[i] * offsets[i];
  int64_t i = 0;
  for (Odometer at(x.shape); !at.done(); at.Next()) CopyElement(x, i++, result, corner + at.Dot(strides));
  return result;
}

// INDEX(T, i0, i1, …): the axes of i0 come first, then those of i1, …, then the
// axes of T that no index names.
Tensor Index(const UOp& uop, Operands sources, OutOfRange outside) {
  const Tensor& x = *sources[0];
  const Operands indices = sources.subspan(1);
  const Shape from = Strides(x.shape);
  Tensor result(x.dtype, uop.shape());
  int64_t i = 0;
  for (Odometer at(result.shape); !at.done(); at.Next(), ++i) {
    int64_t position = 0;
    size_t axis = 0;
    bool inside = true;
    for (size_t k = 0; k < indices.size(); ++k) {
      const Tensor& index = *indices[k];
      int64_t flat = 0;
      for (int64_t size : index.shape) flat = flat * size + at[axis++];
      const uint64_t n = index.bits[flat];  // a negative one is beyond any size
      inside &= index.valid[flat] && n < static_cast<uint64_t>(x.shape[k]);
      if (inside) position += static_cast<int64_t>(n) * from[k];
    }
    for (size_t k = indices.size(); k < x.shape.size(); ++k) position += at[axis++] * from[k];
    if (inside) {
      CopyElement(x, position, result, i);
    } else if (outside == OutOfRange::kZero) {
      result.Set(i, 0);
    }
  }
  return result;
}

Tensor Stack(const UOp& uop, Operands sources) {
  Tensor result(uop.dtype(), uop.shape());
  int64_t i = 0;
  for (const Tensor* source : sources) {
    for (int64_t j = 0; j < source->size(); ++j) CopyElement(*source, j, result, i++);
  }
  return result;
}

}  // namespace

Shape BroadcastStrides(const Shape& from, const Shape& to) {
  const Shape own = Strides(from);
  Shape strides(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) strides[lead + i] = from[i] == 1 ? Dim(0) : own[i];
  return strides;
}

Tensor Iota(const Shape& shape) {
  Tensor result(kIndexType, shape);
  for (int64_t i = 0; i < result.size(); ++i) result.Set(i, static_cast<uint64_t>(i));
  return result;
}

Tensor EvalMovement(const UOp& uop, Operands sources, OutOfRange outside) {
  if (uop.op() == Op::STACK) return Stack(uop, sources);  // perhaps of nothing
  const Tensor& x = *sources[0];
  switch (As<MovementOp>(uop.op())) {
    case MovementOp::PERMUTE: return Permute(uop, x);
    case MovementOp::FLIP: return Flip(uop, x);
    case MovementOp::EXPAND: return View(uop, x, BroadcastStrides(x.shape, uop.shape()), 0);
    case MovementOp::SHRINK: return Shrink(uop, x);
    case MovementOp::PAD: return Pad(uop, x, outside);
    case MovementOp::INDEX: return Index(uop, sources, outside);
    case MovementOp::REPLICATED: {  // they are equal: the first
      Shape strides = Strides(x.shape);
      strides.erase(strides.begin() + uop.arg_as<int64_t>());
      return View(uop, x, strides, 0);
    }
    case MovementOp::RESHAPE: {
      Tensor result = x;
      result.shape = uop.shape();
      return result;
    }
    // STACK above; BITCAST is EvalBitcast.
    case MovementOp::STACK:
    case MovementOp::BITCAST: break;
  }
  KILN_CHECK(false);
  return {};
}

Tensor EvalBitcast(const UOp& uop, const Tensor& x) {
  Tensor result(uop.dtype(), uop.shape());
  const int from = ItemSize(x.dtype), to = ItemSize(result.dtype);
  const int pieces = from > to ? from / to : to / from;
  for (int64_t i = 0; i < result.size(); ++i) {
    // Either `pieces` elements of x make one, or one makes `pieces`.
    char bytes[8] = {};
    const int64_t first = from < to ? i * pieces : i / (from > to ? pieces : 1);
    bool valid = true;
    for (int k = 0; k < (from < to ? pieces : 1); ++k) {
      StoreElement(x.dtype, x.bits[first + k], bytes + k * from);
      valid &= x.valid[first + k] != 0;
    }
    const int64_t skip = from > to ? i % pieces * to : 0;
    if (valid) result.Set(i, LoadElement(result.dtype, bytes + skip));
  }
  return result;
}

}  // namespace kiln::compiler
