// Failures in the words of the client that caused them.
//
// After import a graph is in core ops: what was sent as SUB fails as the ADD or the MUL
// that it became. A client knows neither. Tested by wire_test.
#ifndef KILN_COMPILER_IMPORT_AS_SENT_H_
#define KILN_COMPILER_IMPORT_AS_SENT_H_

#include <string>

#include "absl/status/status.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// The op's name in graph.proto; its number in decimal if it has none.
std::string SentName(const v1::UOp& node);

// `status`, if its detail names a node of `wire`, with that node's op and tag; and where its
// text begins with another core op, that text behind the op as sent: "SUB, read as ADD, wants ...".
absl::Status AsSent(const absl::Status& status, const v1::Graph& wire);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_AS_SENT_H_
