// From one element type to another.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <limits>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// The greatest finite value of the 8-bit floats; 0 for all others.
double GreatestFinite(v1::DType dtype) {
  switch (dtype) {
    case v1::FLOAT8_E4M3: return 448;
    case v1::FLOAT8_E4M3_FNUZ: return 240;
    case v1::FLOAT8_E5M2:
    case v1::FLOAT8_E5M2_FNUZ: return 57344;
    default: return 0;
  }
}

// The IR's casts saturate finite values of 8-bit floats and keep infinite ones. With `saturate` the
// standard wants the latter to become the greatest too; without, all that is too large to be as
// infinite ones are.
Tensor Converted(Tensor x, v1::DType dtype, bool saturate) {
  const double most = GreatestFinite(dtype);
  if (most == 0 || !IsFloat(x.dtype())) return Cast(x, dtype);
  Tensor wide = Widened(x);
  const double infinity = std::numeric_limits<double>::infinity();
  if (saturate) {
    wide = Clamp(wide, -most, most);
  } else {
    // What rounds to the greatest stays.
    const double limit = dtype == v1::FLOAT8_E4M3 ? 464 : dtype == v1::FLOAT8_E4M3_FNUZ ? 248 : 61440;
    wide = Where(wide > limit, infinity, Where(wide < -limit, -infinity, wide));
  }
  return Cast(wide, dtype);
}

Result CastTo(Node& node) {
  KILN_ASSIGN_OR_RETURN(const v1::DType dtype, DTypeOf(static_cast<int>(node.Int("to"))));
  return Converted(node.In(0), dtype, node.Int("saturate", 1) != 0);
}

Result CastLike(Node& node) { return Converted(node.In(0), node.In(1).dtype(), node.Int("saturate", 1) != 0); }

Result BitCast(Node& node) {
  KILN_ASSIGN_OR_RETURN(const v1::DType dtype, DTypeOf(static_cast<int>(node.Int("to"))));
  if (DTypeSize(dtype) != DTypeSize(node.In(0).dtype())) return node.Bad("the two types are not of one size");
  return Bitcast(node.In(0), dtype);
}

constexpr OpRow kRows[] = {
    {"Cast", 6, CastTo, 1, 1, kStandard, false, true},
    {"CastLike", 15, CastLike, 2, 2},
    {"BitCast", 26, BitCast, 1, 1},
};

}  // namespace

OpRows CastOps() { return kRows; }

}  // namespace kiln::onnx
