#include "compiler/structure/updates.h"

namespace kiln::compiler {

UOp* UpdatedStorage(UOp* value) {
  bool updated = false;
  UOp* below = value;
  for (;; below = below->src(0)) {
    if (below->op() == Op::AFTER) {
      updated = true;
    } else if (below->op() != Op::RESHAPE && below->op() != Op::DETACH && below->op() != Op::CONTIGUOUS_BACKWARD) {
      break;
    }
  }
  const bool storage = below->op() == Op::PARAM || below->op() == Op::BUFFER;
  return updated && storage && value->shape() == below->shape() ? below : nullptr;
}

}  // namespace kiln::compiler
