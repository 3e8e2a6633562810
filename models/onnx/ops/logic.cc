// Comparisons, bools, bits, and choosing by a bool.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <limits>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// A count beyond the width gives 0, as the IR's shifts do.
Result BitShift(Node& node) {
  const std::string direction = node.Text("direction");
  if (direction == "LEFT") return node.In(0) << node.In(1);
  if (direction == "RIGHT") return node.In(0) >> node.In(1);
  return node.Bad("direction is LEFT or RIGHT");
}

Result IsInf(Node& node) {
  const Tensor x = node.In(0);
  const bool positive = node.Int("detect_positive", 1) != 0, negative = node.Int("detect_negative", 1) != 0;
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor no = x != x, up = x == infinity, down = x == -infinity;
  return positive && negative ? up | down : positive ? up : negative ? down : no & !no;
}

Result Choose(Node& node) { return Where(node.In(0), node.In(1), node.In(2)); }

constexpr OpRow kRows[] = {
    KILN_BINARY("And", 7, a& b),
    KILN_BINARY("Or", 7, a | b),
    KILN_BINARY("Xor", 7, a ^ b),
    KILN_BINARY("BitwiseAnd", 18, a& b),
    KILN_BINARY("BitwiseOr", 18, a | b),
    KILN_BINARY("BitwiseXor", 18, a ^ b),
    KILN_BINARY("Equal", 7, a == b),
    KILN_BINARY("Less", 7, a < b),
    KILN_BINARY("Greater", 7, a > b),
    KILN_BINARY("LessOrEqual", 12, a <= b),
    KILN_BINARY("GreaterOrEqual", 12, a >= b),
    KILN_UNARY("Not", 1, !x),
    KILN_UNARY("BitwiseNot", 18, x ^ Greatest(node.graph(), x.dtype()) ^ Least(node.graph(), x.dtype())),
    KILN_UNARY("IsNaN", 9, x != x),
    {"IsInf", 10, IsInf, 1, 1},
    {"BitShift", 11, BitShift, 2, 2},
    {"Where", 9, Choose, 3, 3},
};

}  // namespace

OpRows LogicOps() { return kRows; }

}  // namespace kiln::onnx
