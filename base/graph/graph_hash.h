// The identity of a graph: what a client of any language computes for itself
// and what a program is cached under.
//
// A Merkle tree: a node's digest is BLAKE3-256 over its op's name, its argument
// in canonical encoding and the digests of its sources. So numbering, duplicate
// and unreachable nodes, tags, dtype checks, field order and unknown fields do
// not matter. proto/README.md fixes the encoding to the last byte, and
// tests/conformance/hash_vectors.json pins it.
#ifndef KILN_BASE_GRAPH_GRAPH_HASH_H_
#define KILN_BASE_GRAPH_GRAPH_HASH_H_

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/blake3.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

struct GraphHash {
  std::array<uint8_t, 32> bytes = {};

  // 64 lowercase hexadecimal digits, first byte first.
  std::string Hex() const;
  // The 32 bytes, as a message field carries them.
  absl::string_view Bytes() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  // None unless there are exactly 32 bytes, or 64 hexadecimal digits.
  static std::optional<GraphHash> FromBytes(absl::string_view bytes);
  static std::optional<GraphHash> FromHex(absl::string_view hex);

  auto operator<=>(const GraphHash&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const GraphHash& hash) {
    return H::combine(std::move(h), hash.bytes);
  }
};

// The hash of `graph`, whose root is its last node. Every node is looked at,
// reachable or not; the detail of an error names the first one at fault:
//   GRAPH_EMPTY          no node
//   UNKNOWN_OP           an op this version does not know
//   SOURCE_OUT_OF_RANGE  a source index that is no node
//   GRAPH_CYCLE          a source that is not earlier than its user
//   BAD_ARGUMENT         a constant without canonical value, an unknown dialect
// No recursion; time and memory are linear in the graph.
absl::StatusOr<GraphHash> HashGraph(const v1::Graph& graph);
// The same for somebody who may be gone before it ends: asks `wanted` every millisecond or so, and ends with its error.
absl::StatusOr<GraphHash> HashGraph(const v1::Graph& graph, absl::FunctionRef<absl::Status()> wanted);

// The digest of every node, in order: equal digests mean equal sub-graphs.
absl::StatusOr<std::vector<Digest>> HashNodes(const v1::Graph& graph);

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_GRAPH_HASH_H_
