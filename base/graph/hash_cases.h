// The pinned graph hashes: what the cases file says, and the JSON made of it.
//
// tests/conformance/hash_cases.txt holds graphs in the text form;
// hash_vectors.json holds the same graphs as protobuf JSON, each with its hash, or with
// the error and the node for which it has none, for client libraries of every language
// to test themselves against.
#ifndef KILN_BASE_GRAPH_HASH_CASES_H_
#define KILN_BASE_GRAPH_HASH_CASES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

struct HashCase {
  std::string name;
  // The case, earlier in the file, whose hash this one shares; empty if none.
  std::string same_as;
  // The name of the ErrorCode with which this one is refused; empty if it has a hash.
  std::string error;
  v1::Graph graph;
};

absl::StatusOr<std::vector<HashCase>> ParseHashCases(absl::string_view text);

// The whole content of hash_vectors.json.
absl::StatusOr<std::string> HashVectorsJson(const std::vector<HashCase>& cases);

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_HASH_CASES_H_
