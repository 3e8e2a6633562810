#include "compiler/target/llvm/values/reduce_lanes.h"

#include <vector>

#include "compiler/target/llvm/values/emit_alu.h"

namespace kiln::compiler {

llvm::Value* ReduceLanes(llvm::IRBuilder<>& builder, Op reduce_op, DType dtype, llvm::Value* value, int64_t lanes) {
  std::vector<llvm::Value*> rest;
  while (lanes > 1) {
    const int64_t half = lanes / 2;
    if (lanes % 2 == 1) rest.push_back(builder.CreateExtractElement(value, static_cast<uint64_t>(lanes - 1)));
    std::vector<int> low, high;
    for (int64_t lane = 0; lane < half; ++lane) {
      low.push_back(static_cast<int>(lane));
      high.push_back(static_cast<int>(lane + half));
    }
    value = half == 1 ? EmitReduceOp(builder, reduce_op, dtype, builder.CreateExtractElement(value, uint64_t{0}),
                                     builder.CreateExtractElement(value, uint64_t{1}))
                      : EmitReduceOp(builder, reduce_op, dtype, builder.CreateShuffleVector(value, low),
                                     builder.CreateShuffleVector(value, high));
    lanes = half;
  }
  for (llvm::Value* odd : rest) value = EmitReduceOp(builder, reduce_op, dtype, value, odd);
  return value;
}

Value ReduceInto(llvm::IRBuilder<>& builder, Op reduce_op, DType dtype, const Value& source, const Shape& to) {
  const Shape& from = source.shape;
  std::vector<llvm::Value*> rows(static_cast<size_t>(RowsOf(to)), nullptr);
  for (int64_t row = 0; row < RowsOf(from); ++row) {
    const size_t into = BroadcastRow(to, from, static_cast<size_t>(row));
    llvm::Value* value = Materialize(builder, source.elements[static_cast<size_t>(row)], LanesOf(from));
    rows[into] = rows[into] == nullptr ? value : EmitReduceOp(builder, reduce_op, dtype, rows[into], value);
  }
  Value result{to, {}};
  for (llvm::Value* row : rows)
    result.elements.push_back(
        {LanesOf(to) == LanesOf(from) ? row : ReduceLanes(builder, reduce_op, dtype, row, LanesOf(from))});
  return result;
}

}  // namespace kiln::compiler
