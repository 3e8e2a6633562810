// The canonical encoding of an op's argument, from which its hash is made.
//
// proto/README.md, "The graph hash", is the specification; this writes it.
#ifndef KILN_BASE_GRAPH_CANONICAL_ARG_H_
#define KILN_BASE_GRAPH_CANONICAL_ARG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

// The pieces of every encoding: fixed-width integers are little-endian; a
// string is its length as u32, then its bytes.
void AppendU32(uint32_t value, std::string& out);
void AppendString(absl::string_view text, std::string& out);

// Appends the argument's form and content, but for text and data that it ends with, which
// may be long: that is `rest`, a part of `uop`. BAD_ARGUMENT (without a node) if a
// constant has no canonical value or a reduction names no op.
absl::Status AppendCanonicalArg(const v1::UOp& uop, std::string& out, absl::string_view& rest);

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_CANONICAL_ARG_H_
