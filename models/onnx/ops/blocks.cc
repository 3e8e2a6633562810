// Weights of few bits, by blocks (com.microsoft): how language models are made small.
//
// A row of a weight is cut into blocks of 16 to 256 numbers. Each block has a scale and, perhaps, a zero point; its
// numbers have 2, 4 or 8 bits and lie in bytes, the first in the lowest bits. Kiln has no such dtype. The bytes are
// what the program holds and reads, and shifts and masks make numbers of them where they are used.
//
// Tested by tests/onnx/fused_quantized_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// Bytes (…, n) as the numbers in them, (…, n * 8 / bits), of uint8.
Tensor Unpacked(Tensor bytes, int64_t bits) {
  if (!bytes.valid() || bits == 8) return bytes;
  std::vector<Tensor> parts;
  for (int64_t shift = 0; shift < 8; shift += bits) parts.push_back((bytes >> shift) & ((1 << bits) - 1));
  Sizes shape = bytes.sizes();
  shape.back() = shape.back() * (8 / bits);
  return Reshape(Stack(parts, -1), shape);
}

struct Blocks {
  int64_t rows, columns, bits, block;
  int64_t count;  // in each row; the last may reach beyond the columns
};

absl::StatusOr<Blocks> BlocksOf(Node& node) {
  Blocks blocks{node.Int("N"), node.Int("K"), node.Int("bits", 4), node.Int("block_size"), 0};
  constexpr int64_t kMost = int64_t{1} << 30;
  if (blocks.rows < 1 || blocks.rows > kMost || blocks.columns < 1 || blocks.columns > kMost)
    return node.Bad("N and K are from 1 to 2^30");
  if (blocks.bits != 2 && blocks.bits != 4 && blocks.bits != 8)
    return node.Refuse(absl::StrCat("numbers of ", blocks.bits, " bits; 2, 4 and 8 are taken"));
  if (blocks.block < 8 || blocks.block > kMost || blocks.block % 8 != 0)
    return node.Bad("block_size is a multiple of 8, up to 2^30");
  blocks.count = (blocks.columns - 1) / blocks.block + 1;
  return blocks;
}

// One number for each block: floats, or zero points packed as the weight is, each row in whole bytes.
absl::StatusOr<Tensor> ForEach(Node& node, size_t i, const Blocks& blocks, v1::DType dtype) {
  Tensor x = node.In(i);
  int64_t each = blocks.count;
  if (!IsFloat(x.dtype())) each = (blocks.count * blocks.bits - 1) / 8 + 1;
  if (x.sizes().Count() != Size(blocks.rows) * each || (!IsFloat(x.dtype()) && x.dtype() != v1::UINT8)) {
    return node.Bad(absl::StrCat("input ", i, " is ", TypeText(x.dtype(), x.sizes()), "; ", blocks.rows, " rows of ",
                                 blocks.count, " blocks are what it is for"));
  }
  x = Reshape(x, {blocks.rows, each});
  if (!IsFloat(x.dtype())) x = Part(Unpacked(x, blocks.bits), 1, 0, blocks.count);
  return Cast(x, dtype);
}

// x (…, K) times the weight (N, K), turned.
Result MatMulNBits(Node& node) {
  const Tensor x = node.In(0), bytes = node.In(1);
  if (node.Int("weight_prepacked") != 0)
    return node.Refuse("weight_prepacked: a weight in the order of one GPU's kernel; 0 is taken");
  KILN_ASSIGN_OR_RETURN(const Blocks blocks, BlocksOf(node));
  const int64_t blob = blocks.block / 8 * blocks.bits;
  if (bytes.dtype() != v1::UINT8 || bytes.sizes().Count() != Size(blocks.rows) * blocks.count * blob) {
    return node.Bad(absl::StrCat("a weight of ", TypeText(bytes.dtype(), bytes.sizes()), "; it is uint8 (", blocks.rows,
                                 ", ", blocks.count, ", ", blob, ")"));
  }
  const v1::DType wide = Widened(x).dtype();
  if (!IsFloat(wide)) return node.Bad(absl::StrCat("x is ", DTypeName(wide), ", and must be of floats"));
  KILN_ASSIGN_OR_RETURN(Tensor scale, ForEach(node, 2, blocks, wide));
  Tensor zero = node.graph().Constant(1 << (blocks.bits - 1), wide);
  if (node.Has(3)) {
    KILN_ASSIGN_OR_RETURN(zero, ForEach(node, 3, blocks, wide));
  }
  Tensor weight = Cast(Unpacked(Reshape(bytes, {blocks.rows, blocks.count, blob}), blocks.bits), wide);
  if (node.Has(4)) {
    // Which block each column is of, where they are not in order.
    if (node.Has(3)) return node.Refuse("zero points beside g_idx: what each is of, onnxruntime reads in its own way");
    if (node.In(4).rank() != 1 || node.In(4).size(0).greatest() < blocks.columns)
      return node.Bad("g_idx is one number a column");
    const Tensor of = Part(node.In(4), 0, 0, blocks.columns);
    weight = Part(Reshape(weight, {blocks.rows, blocks.count * blocks.block}), 1, 0, blocks.columns);
    scale = IndexSelect(scale, 1, of);
    weight = (weight - zero) * scale;
  } else {
    weight = (weight - (zero.rank() > 0 ? Unsqueeze(zero, 2) : zero)) * Unsqueeze(scale, 2);
    weight = Part(Reshape(weight, {blocks.rows, blocks.count * blocks.block}), 1, 0, blocks.columns);
  }
  const Tensor product = Cast(Matmul(Widened(x), Transpose(weight)), x.dtype());
  return node.Has(5) ? product + node.In(5) : product;
}

constexpr OpRow kRows[] = {
    {"MatMulNBits", 1, MatMulNBits, 3, 6, kMicrosoft},
};

}  // namespace

OpRows BlockOps() { return kRows; }

}  // namespace kiln::onnx
