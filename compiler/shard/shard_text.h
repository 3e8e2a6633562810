// A cut as text, for goldens and for `kiln explain`.
#ifndef KILN_COMPILER_SHARD_SHARD_TEXT_H_
#define KILN_COMPILER_SHARD_SHARD_TEXT_H_

#include <string>

#include "compiler/shard/segments.h"
#include "compiler/shard/shares.h"

namespace kiln::compiler {

// Step by step: a segment's devices and its graph, a transfer's layouts.
std::string ShardText(const Shares& shares, const Cut& cut);

// "(8) split 0 over D0,D1 -> whole on D0,D1, ADD"
std::string TransferText(const Transfer& transfer);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SHARD_SHARD_TEXT_H_
