// The life of a program in five pictures, from a compilation that was watched: the
// graph of tensors, the list of calls, each kernel's loops, the source, the binary.
#ifndef KILN_CLIENT_CLI_TEXT_PICTURES_H_
#define KILN_CLIENT_CLI_TEXT_PICTURES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {

struct Picture {
  std::string file;  // "1_tensor_graph.svg"
  std::string svg;
};

// `compiled`: what Explain says of the graph for its device; `source`: the same for
// a source language. Both with all stages.
absl::StatusOr<std::vector<Picture>> DrawLife(const v1::ExplainResponse& compiled, const v1::ExplainResponse& source);

// The list of calls alone: LINEAR over CALLs, each of a kernel by name and of the
// buffers that it is given, without what is in the kernels.
v1::Graph CallList(const v1::Graph& rangeified);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_PICTURES_H_
