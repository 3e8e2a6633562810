// Which of a root's sources are storage, updated in place.
#ifndef KILN_COMPILER_STRUCTURE_UPDATES_H_
#define KILN_COMPILER_STRUCTURE_UPDATES_H_

#include "compiler/ir/uop.h"

namespace kiln::compiler {

// The PARAM or BUFFER that `value`, a source of a TUPLE or SINK, is: an AFTER of it,
// whole and in its own shape, whatever shapes and markers are on the way. The result is
// then the storage itself, in its last state. nullptr where it is a value of its own.
UOp* UpdatedStorage(UOp* value);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_UPDATES_H_
