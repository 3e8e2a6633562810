// A program's instructions as a tree: loops and IFs hold what stands in them.
#ifndef KILN_COMPILER_PROGRAM_PROGRAM_TREE_H_
#define KILN_COMPILER_PROGRAM_PROGRAM_TREE_H_

#include <deque>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Loops and IFs of a program may stand in each other this deep.
inline constexpr size_t kMaxNested = 64;

class ProgramTree {
 public:
  struct Block;
  struct Item {
    UOp* instruction;       // for a loop its RANGE, for an IF it
    Block* body = nullptr;  // of a loop or an IF
  };
  struct Block {
    std::vector<Item> items;
    Block* parent = nullptr;
    UOp* opener = nullptr;  // null at the root
  };

  // `list`: properly nested, each END closing one loop (program/program_values.h).
  explicit ProgramTree(absl::Span<UOp* const> list);

  const Block& root() const { return blocks_.front(); }

 private:
  std::deque<Block> blocks_;
};

// Closes a loop or an IF.
UOp* Closing(Graph& graph, UOp* opener);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_PROGRAM_TREE_H_
