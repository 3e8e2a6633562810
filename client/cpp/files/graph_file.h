// Graphs in files: what one program builds or imports, another compiles.
#ifndef KILN_CLIENT_CPP_FILES_GRAPH_FILE_H_
#define KILN_CLIENT_CPP_FILES_GRAPH_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::client {

// By its name's ending: .uop (base/graph/graph_text.h), .txtpb, .pb or .kgraph, which are the same. Errors name the
// file, and the line where that makes sense. "-" reads .uop text from standard input. The constants of a .kgraph that
// `kiln import` has written lie beside it: ReadConstants (client/cpp/arrays/safetensors.h).
absl::StatusOr<v1::Graph> ReadGraph(const std::string& path);

// By its name's ending: .uop, .pb or .kgraph; INVALID_ARGUMENT for any other.
absl::Status WriteGraph(const v1::Graph& graph, const std::string& path);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_FILES_GRAPH_FILE_H_
