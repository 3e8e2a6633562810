#include "tests/reduce/reduce.h"

#include "base/check.h"
#include "tests/reduce/reductions.h"

namespace kiln::testing {

Candidates::Candidates(v1::Graph graph, const Property& property, const TypesOf& types, std::ostream* progress)
    : graph_(std::move(graph)), weight_(WeightOf(graph_)), property_(property), types_of_(types), progress_(progress) {}

bool Candidates::Try(const v1::Graph& candidate) {
  if (candidate.nodes_size() == 0) return false;
  const Weight weight = WeightOf(candidate);
  if (weight >= weight_ || !tried_.insert(candidate.SerializeAsString()).second) return false;
  ++asked_;
  if (!property_(candidate)) return false;
  graph_ = candidate;
  weight_ = weight;
  types_.clear();
  if (progress_ != nullptr)
    *progress_ << way_ << ": " << graph_.nodes_size() << " nodes, " << asked_ << " candidates asked about\n";
  return true;
}

const std::vector<NodeType>& Candidates::types() {
  if (types_.empty()) types_ = types_of_(graph_);
  types_.resize(graph_.nodes_size());
  return types_;
}

Reduction Reduce(const v1::Graph& graph, const Property& property, const TypesOf& types, std::ostream* progress) {
  KILN_CHECK(IsOrdered(graph));
  if (!property(graph)) return {graph, false, 1};
  Candidates candidates(graph, property, types, progress);
  candidates.set_way("nodes out of reach");
  candidates.Try(OnlyReached(graph));
  Weight before;
  do {
    before = WeightOf(candidates.graph());
    for (const WayToReduce& way : WaysToReduce()) {
      candidates.set_way(way.name);
      way.run(candidates);
    }
  } while (WeightOf(candidates.graph()) < before);
  return {candidates.graph(), true, candidates.asked() + 1};
}

}  // namespace kiln::testing
