// Delta debugging of graphs: the smallest graph that still has a property.
//
// A fuzzer's failure is a graph of a hundred nodes of which three matter. Reduce
// takes away whatever can go: results and list entries, by halves first and then
// one by one; loops; a node in favour of one of its sources, of a constant or of a
// new parameter; functions; sizes and constants; names. It asks after each step
// whether the property still holds, and begins again until nothing more can go. The
// result depends on nothing but the graph and the answers.
#ifndef KILN_TESTS_REDUCE_REDUCE_H_
#define KILN_TESTS_REDUCE_REDUCE_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kiln/v1/graph.pb.h"
#include "tests/reduce/edit.h"
#include "tests/reduce/node_type.h"

namespace kiln::testing {

// Whether a candidate has the property. A candidate need not be legal: each is a
// graph whose sources are earlier than their users, with its root last; and with
// nothing out of the root's reach, unless the property needs that.
using Property = std::function<bool(const v1::Graph&)>;

struct Reduction {
  v1::Graph graph;
  bool held = false;  // the property, of the whole graph: otherwise nothing was done
  int asked = 0;      // candidates
};

// IsOrdered(graph). `types` derives the nodes' types. `progress`, unless null, gets a line for each
// step that was taken.
Reduction Reduce(const v1::Graph& graph, const Property& property, const TypesOf& types, std::ostream* progress);

// What the ways to reduce (reductions.h) work on.
class Candidates {
 public:
  Candidates(v1::Graph graph, const Property& property, const TypesOf& types, std::ostream* progress);

  // The smallest graph so far.
  const v1::Graph& graph() const { return graph_; }
  int nodes() const { return graph_.nodes_size(); }

  // Takes `candidate` if it is simpler, has not been asked about and has the property.
  bool Try(const v1::Graph& candidate);

  // Of each node of graph().
  const std::vector<NodeType>& types();

  void set_way(std::string way) { way_ = std::move(way); }
  int asked() const { return asked_; }

 private:
  v1::Graph graph_;
  Weight weight_;
  const Property& property_;
  const TypesOf& types_of_;
  std::vector<NodeType> types_;  // empty: not derived yet
  std::ostream* progress_;
  std::string way_;
  absl::flat_hash_set<std::string> tried_;
  int asked_ = 0;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_REDUCE_REDUCE_H_
