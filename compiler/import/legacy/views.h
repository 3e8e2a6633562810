// Views of the older frontends: a ShapeTracker over a value, as movement ops.
//
// A view reads a row-major value by strides: element (i, j, ...) is number
// offset + i * stride[0] + j * stride[1] + ... of it, and 0 outside of the mask's
// box. Views come in a list: the first reads the value, each further one reads what
// the one before it gives.
//
// What slicing, stretching, turning and reordering of axes can say becomes those
// ops, so that it can also be stored to. Strides that they cannot say (windows that
// overlap) become an INDEX by computed places.
#ifndef KILN_COMPILER_IMPORT_LEGACY_VIEWS_H_
#define KILN_COMPILER_IMPORT_LEGACY_VIEWS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// `base` through `views`. BAD_ARGUMENT for a view that is none, or that reaches
// outside of what it reads; SIZE_OVERFLOW for one too large.
absl::StatusOr<UOp*> ApplyViews(Graph& graph, UOp* base, const v1::ViewArg& views);

// Of the views' shape, bool: whether an element is inside of every mask.
absl::StatusOr<UOp*> MaskOfViews(Graph& graph, const v1::ViewArg& views);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_LEGACY_VIEWS_H_
