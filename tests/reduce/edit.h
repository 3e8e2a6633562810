// Edits of a graph as it travels: each makes a smaller or plainer graph of one, and
// none asks whether that is legal. Whoever tries them finds out.
#ifndef KILN_TESTS_REDUCE_EDIT_H_
#define KILN_TESTS_REDUCE_EDIT_H_

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

// Nodes, sources, the sum of all numbers, the length of the text form: less is
// simpler, the first that differs decides. Reducing lowers it at every step, and so
// comes to an end.
using Weight = std::tuple<int, int, double, size_t>;
Weight WeightOf(const v1::Graph& graph);

// Whether every source is earlier than its user; all edits want that.
bool IsOrdered(const v1::Graph& graph);

// The nodes that the root reaches, in their order.
v1::Graph OnlyReached(const v1::Graph& graph);

// Equal nodes become one.
v1::Graph Merged(const v1::Graph& graph);

// Every use of node `at` becomes a use of the earlier node `by`; a list that has
// both loses one. The root becomes `by` itself.
v1::Graph WithUses(const v1::Graph& graph, uint32_t at, uint32_t by);

// Node `at` becomes the last of `made`. Their sources are nodes of `graph` before
// `at`, or at + k for the k-th of `made`.
v1::Graph WithNode(const v1::Graph& graph, uint32_t at, const std::vector<v1::UOp>& made);

// Node `at` without sources [begin, end).
v1::Graph WithoutSources(const v1::Graph& graph, uint32_t at, int begin, int end);

// The same of a LINEAR, and without the entries that need one of these.
v1::Graph WithoutEntries(const v1::Graph& graph, uint32_t list, int begin, int end);

// What the loop or IF opened by node `at` does, once: its counter is 0 of `dtype`,
// and what closed it is gone. Nothing if `at` opens none.
std::optional<v1::Graph> WithoutLoop(const v1::Graph& graph, uint32_t at, v1::DType dtype);

// Node `at`, a CALL or the GETTUPLE of a FUNCTION, with the body in its place.
// Nothing for any other.
std::optional<v1::Graph> Inlined(const v1::Graph& graph, uint32_t at);

}  // namespace kiln::testing

#endif  // KILN_TESTS_REDUCE_EDIT_H_
