// Names of ops: those of the enum in graph.proto, found without reflection.
#ifndef KILN_BASE_OP_NAMES_H_
#define KILN_BASE_OP_NAMES_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

// "ADD"; empty for OP_UNSPECIFIED and for a number that is no op.
absl::string_view OpName(v1::Op op);

// "ADD" -> ADD; none for anything else.
std::optional<v1::Op> ParseOp(absl::string_view name);

}  // namespace kiln

#endif  // KILN_BASE_OP_NAMES_H_
