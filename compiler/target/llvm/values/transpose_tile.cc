#include "compiler/target/llvm/values/transpose_tile.h"

#include <algorithm>
#include <bit>

#include "llvm/IR/Constants.h"

namespace kiln::compiler {
namespace {

void TransposeSquare(llvm::IRBuilder<>& builder, std::vector<llvm::Value*>& tile) {
  const auto size = static_cast<int>(tile.size());
  for (int step = 1; step < size; step *= 2) {
    std::vector<int> upper, lower;
    for (int lane = 0; lane < size; ++lane) {
      const bool stays = (lane & step) == 0;
      upper.push_back(stays ? lane : size + lane - step);
      lower.push_back(stays ? lane + step : size + lane);
    }
    for (int row = 0; row < size; ++row) {
      if ((row & step) != 0) continue;
      llvm::Value*& first = tile[static_cast<size_t>(row)];
      llvm::Value*& second = tile[static_cast<size_t>(row + step)];
      llvm::Value* above = builder.CreateShuffleVector(first, second, upper);
      second = builder.CreateShuffleVector(first, second, lower);
      first = above;
    }
  }
}

// The first `to` of `from` lanes, or these and others of which nothing is known.
llvm::Value* InLanes(llvm::IRBuilder<>& builder, llvm::Value* value, int64_t from, int64_t to) {
  if (from == to) return value;
  std::vector<int> lanes;
  for (int lane = 0; lane < to; ++lane) lanes.push_back(lane < from ? lane : llvm::PoisonMaskElem);
  return builder.CreateShuffleVector(value, lanes);
}

}  // namespace

std::vector<llvm::Value*> TransposeTile(llvm::IRBuilder<>& builder, const std::vector<llvm::Value*>& rows,
                                        int64_t lanes) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(count, lanes))));
  std::vector<llvm::Value*> tile;
  for (llvm::Value* row : rows) tile.push_back(InLanes(builder, row, lanes, size));
  tile.resize(static_cast<size_t>(size), llvm::PoisonValue::get(tile[0]->getType()));
  TransposeSquare(builder, tile);
  tile.resize(static_cast<size_t>(lanes));
  for (llvm::Value*& row : tile) row = InLanes(builder, row, size, count);
  return tile;
}

Value Transposed(llvm::IRBuilder<>& builder, const Value& source, const Shape& shape) {
  const int64_t rows = int64_t{source.shape.front()}, lanes = LanesOf(source.shape);
  const int64_t between = RowsOf(source.shape) / rows;
  Value result{shape, std::vector<Element>(static_cast<size_t>(lanes * between))};
  for (int64_t middle = 0; middle < between; ++middle) {
    std::vector<llvm::Value*> tile;
    for (int64_t row = 0; row < rows; ++row)
      tile.push_back(Materialize(builder, source.elements[static_cast<size_t>(row * between + middle)], lanes));
    tile = TransposeTile(builder, tile, lanes);
    for (int64_t lane = 0; lane < lanes; ++lane)
      result.elements[static_cast<size_t>(lane * between + middle)] = {tile[static_cast<size_t>(lane)]};
  }
  return result;
}

}  // namespace kiln::compiler
