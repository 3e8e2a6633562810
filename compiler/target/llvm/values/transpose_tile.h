// A tile in registers, with its rows and lanes exchanged.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_TRANSPOSE_TILE_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_TRANSPOSE_TILE_H_

#include <vector>

#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// `rows`: vectors of `lanes` lanes each, more than one. As many vectors as there were lanes.
//
// In each step, blocks beside the diagonal of blocks twice as large change places: n log n
// shuffles of a square of n. A tile that is no square of a power of two is transposed as part of
// one, of whose other places nothing is known.
std::vector<llvm::Value*> TransposeTile(llvm::IRBuilder<>& builder, const std::vector<llvm::Value*>& rows,
                                        int64_t lanes);

// `source`, whose rows of the first dimension become its lanes: of `shape`.
Value Transposed(llvm::IRBuilder<>& builder, const Value& source, const Shape& shape);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_TRANSPOSE_TILE_H_
