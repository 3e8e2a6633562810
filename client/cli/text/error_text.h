// Failures, as a person at a terminal wants them.
#ifndef KILN_CLIENT_CLI_TEXT_ERROR_TEXT_H_
#define KILN_CLIENT_CLI_TEXT_ERROR_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::cli {

// Several lines: what was wrong, the node of `graph` it is about (if there is one),
// and what to do about it.
std::string ErrorText(const absl::Status& status, const v1::Graph& graph);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_ERROR_TEXT_H_
