// Trees of decisions (ai.onnx.ml), and forests of them.
//
// A row of features goes from a tree's root to one of its leaves, at each node to one side or the other by one feature
// and one number. Here all trees are one table of nodes, and each row has one place in each tree: as often as the
// longest way has steps, all places move at once, by looking up what their nodes compare and where these lead. A leaf
// leads to itself. At the end each place is a leaf, and its weights are added to the scores.
//
// A file could make a node lead back to one above it. So nodes are put in order first, each after those that lead to
// it; what is left over then is a circle. Nodes that no root leads to, such as pruning leaves behind, are in the table
// and no row ever gets there.
//
// Tested by tests/onnx/trees_test.py.
#include <limits>
#include <map>
#include <set>

#include "models/onnx/ops/ml/ml.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// What a node compares, by the names of the classifier and regressor; TreeEnsemble has their places in this list.
struct Mode {
  absl::string_view name;
  Tensor (*function)(Tensor x, Tensor split);
};

constexpr Mode kModes[] = {
    {"BRANCH_LEQ", [](Tensor x, Tensor split) { return x <= split; }},
    {"BRANCH_LT", [](Tensor x, Tensor split) { return x < split; }},
    {"BRANCH_GTE", [](Tensor x, Tensor split) { return x >= split; }},
    {"BRANCH_GT", [](Tensor x, Tensor split) { return x > split; }},
    {"BRANCH_EQ", [](Tensor x, Tensor split) { return x == split; }},
    {"BRANCH_NEQ", [](Tensor x, Tensor split) { return x != split; }},
};
constexpr int64_t kEqual = 4, kMember = 6, kLeaf = -1;

struct Forest {
  // Of each node.
  std::vector<int64_t> mode, feature, on_true, on_false, missing_is_true;
  std::vector<double> split;
  std::vector<int64_t> roots;
  // What a leaf adds to which target.
  struct Weight {
    int64_t leaf, target;
    double weight;
  };
  std::vector<Weight> weights;
  int64_t targets = 1;

  int64_t size() const { return static_cast<int64_t>(mode.size()); }
};

// The longest way from a root, or BAD_ARGUMENT where a way is a circle.
absl::StatusOr<int64_t> Depth(Node& node, const Forest& forest) {
  std::vector<int64_t> above(forest.mode.size()), depth(forest.mode.size()), reached, ready;
  std::vector<bool> seen(forest.mode.size());
  const auto below = [&](int64_t i) {
    return forest.mode[i] == kLeaf ? std::vector<int64_t>() : std::vector{forest.on_true[i], forest.on_false[i]};
  };
  const auto reach = [&](int64_t i) {
    if (!seen[i]) reached.push_back(i);
    seen[i] = true;
  };
  for (const int64_t root : forest.roots) reach(root);
  for (size_t at = 0; at < reached.size(); ++at) {
    for (const int64_t child : below(reached[at])) {
      ++above[child];
      reach(child);
    }
  }
  for (const int64_t i : reached) {
    if (above[i] == 0) ready.push_back(i);
  }
  int64_t longest = 0;
  for (size_t at = 0; at < ready.size(); ++at) {
    for (const int64_t child : below(ready[at])) {
      depth[child] = std::max(depth[child], depth[ready[at]] + 1);
      longest = std::max(longest, depth[child]);
      if (--above[child] == 0) ready.push_back(child);
    }
  }
  if (ready.size() != reached.size()) return node.Bad("its nodes lead in a circle");
  KILN_RETURN_IF_ERROR(node.CheckTurns(longest));
  return longest;
}

// The leaf of each row in each tree, (rows, trees), for x (rows, features).
absl::StatusOr<Tensor> Leaves(Node& node, const Forest& forest, Tensor x) {
  KILN_ASSIGN_OR_RETURN(const int64_t features, node.Dim(x, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t depth, Depth(node, forest));
  std::set<int64_t> modes;
  for (int64_t i = 0; i < forest.size(); ++i) {
    if (forest.mode[i] != kLeaf) modes.insert(forest.mode[i]);
    if (forest.feature[i] < 0 || (forest.mode[i] != kLeaf && forest.feature[i] >= features))
      return node.Bad(absl::StrCat("node ", i, " looks at feature ", forest.feature[i], " of ", features));
  }
  const bool missing =
      std::any_of(forest.missing_is_true.begin(), forest.missing_is_true.end(), [](int64_t one) { return one != 0; });
  const Sizes places = {x.size(0), static_cast<int64_t>(forest.roots.size())};
  Tensor at = BroadcastTo(node.Make(forest.roots), places);
  if (depth == 0) return at;
  const Tensor rows = Reshape(x, {-1}), first = Unsqueeze(node.graph().Arange(x.size(0), v1::INT64) * features, 1);
  const Tensor feature = node.Make(forest.feature), on_true = node.Make(forest.on_true),
               on_false = node.Make(forest.on_false), mode = node.Make(forest.mode),
               missing_is_true = node.Make(forest.missing_is_true);
  const Tensor split = node.Make(forest.split, {forest.size()}, x.dtype());
  for (int64_t step = 0; step < depth; ++step) {
    const auto look = [&](Tensor table, Tensor ids) { return Reshape(Index(table, {Reshape(ids, {-1})}), places); };
    const Tensor value = look(rows, look(feature, at) + first), than = look(split, at);
    Tensor holds;
    for (const int64_t one : modes) {
      const Tensor compared = kModes[one].function(value, than);
      holds = holds.valid() ? Where(look(mode, at) == one, compared, holds) : compared;
    }
    if (missing) holds = holds | ((value != value) & (look(missing_is_true, at) != 0));
    at = Where(holds, look(on_true, at), look(on_false, at));
    KILN_RETURN_IF_ERROR(node.graph().status());
  }
  return at;
}

// How the weights of a target's leaves become one number, for TreeEnsemble by its place here.
struct Aggregate {
  absl::string_view name;
  double absent;  // what stands for a leaf without such a target
  Tensor (*function)(Tensor weights);
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Aggregate kAggregates[] = {
    {"AVERAGE", 0, [](Tensor x) { return Mean(x, 1); }},
    {"SUM", 0, [](Tensor x) { return Sum(x, 1); }},
    {"MIN", kInfinity, [](Tensor x) { return Min(x, 1); }},
    {"MAX", -kInfinity, [](Tensor x) { return Max(x, 1); }},
};

// (rows, targets).
absl::StatusOr<Tensor> Scores(Node& node, const Forest& forest, const Aggregate& aggregate) {
  KILN_ASSIGN_OR_RETURN(const Tensor x, Features(node, node.In(0), true));
  if (forest.size() < 1) return node.Bad("there are no nodes");
  if (forest.targets < 1 || forest.targets > kMostNumbers / forest.size()) {
    return node.Refuse(
        absl::StrCat(forest.size(), " nodes with ", forest.targets, " targets; up to 2^24 weights are taken"));
  }
  KILN_ASSIGN_OR_RETURN(const Tensor leaves, Leaves(node, forest, x));
  if (!leaves.valid()) return leaves;
  KILN_RETURN_IF_ERROR(node.MayMake(forest.size() * forest.targets, x.dtype()));
  std::vector<double> table(static_cast<size_t>(forest.size() * forest.targets), aggregate.absent);
  std::vector<bool> seen(table.size());
  for (const Forest::Weight& weight : forest.weights) {
    if (weight.target < 0 || weight.target >= forest.targets)
      return node.Bad(absl::StrCat("a weight for target ", weight.target, " of ", forest.targets));
    const auto place = static_cast<size_t>(weight.leaf * forest.targets + weight.target);
    table[place] = seen[place] ? table[place] + weight.weight : weight.weight;
    seen[place] = true;
  }
  const Tensor weights = node.Make(table, {forest.size(), forest.targets}, x.dtype());
  const Tensor found =
      Reshape(Index(weights, {Reshape(leaves, {-1})}), {leaves.size(0), leaves.size(1), forest.targets});
  const Tensor scores = aggregate.function(found);
  return aggregate.absent == 0 ? scores : Where(Abs(scores) == kInfinity, Filled(scores, 0), scores);
}

absl::StatusOr<const Aggregate*> AggregateOf(Node& node) {
  const std::string name = node.Text("aggregate_function", "SUM");
  for (const Aggregate& row : kAggregates) {
    if (row.name == name) return &row;
  }
  return node.Bad(absl::StrCat("aggregate_function \"", absl::CHexEscape(name), "\"; AVERAGE, SUM, MIN or MAX"));
}

// The forest of a classifier or a regressor: `leaves` is the attributes' prefix, "class" or "target".
absl::StatusOr<Forest> ReadForest(Node& node, const std::string& leaves) {
  Forest forest;
  const std::vector<int64_t> trees = node.Ints("nodes_treeids"), ids = node.Ints("nodes_nodeids");
  const std::vector<int64_t> on_true = node.Ints("nodes_truenodeids"), on_false = node.Ints("nodes_falsenodeids");
  const std::vector<std::string> modes = node.Texts("nodes_modes");
  forest.feature = node.Ints("nodes_featureids");
  forest.missing_is_true = node.Ints("nodes_missing_value_tracks_true", std::vector<int64_t>(ids.size()));
  KILN_ASSIGN_OR_RETURN(forest.split, RealsOf(node, "nodes_values"));
  for (const size_t count : {trees.size(), on_true.size(), on_false.size(), modes.size(), forest.feature.size(),
                             forest.missing_is_true.size(), forest.split.size()}) {
    if (count != ids.size()) return node.Bad("attributes nodes_… are not one for each node");
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!places.emplace(std::pair(trees[i], ids[i]), static_cast<int64_t>(i)).second)
      return node.Bad(absl::StrCat("node ", ids[i], " of tree ", trees[i], " is there twice"));
  }
  const auto place = [&](int64_t tree, int64_t id) -> absl::StatusOr<int64_t> {
    const auto found = places.find({tree, id});
    if (found == places.end()) return node.Bad(absl::StrCat("there is no node ", id, " of tree ", tree));
    return found->second;
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto self = static_cast<int64_t>(i);
    forest.on_true.push_back(self);
    forest.on_false.push_back(self);
    const Mode* mode =
        std::find_if(std::begin(kModes), std::end(kModes), [&](const Mode& one) { return one.name == modes[i]; });
    forest.mode.push_back(modes[i] == "LEAF" ? kLeaf : mode - std::begin(kModes));
    if (modes[i] == "LEAF") {
      forest.feature[i] = 0;
      continue;
    }
    if (mode == std::end(kModes)) return node.Bad(absl::StrCat("node mode \"", absl::CHexEscape(modes[i]), "\""));
    KILN_ASSIGN_OR_RETURN(forest.on_true[i], place(trees[i], on_true[i]));
    KILN_ASSIGN_OR_RETURN(forest.on_false[i], place(trees[i], on_false[i]));
  }
  // A tree's root is its first node, whatever else no node leads to. Of a tree in pieces the standard's own code takes
  // the first node of all, onnxruntime that of each piece.
  std::set<int64_t> begun;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0 && trees[i] == trees[i - 1]) continue;
    if (!begun.insert(trees[i]).second) {
      return node.Refuse(absl::StrCat("nodes of tree ", trees[i], " lie apart: to the standard they are one tree, ",
                                      "to onnxruntime several; each tree's nodes beside each other are taken"));
    }
    forest.roots.push_back(static_cast<int64_t>(i));
  }
  const std::vector<int64_t> weight_trees = node.Ints(leaves + "_treeids"), weight_ids = node.Ints(leaves + "_nodeids"),
                             targets = node.Ints(leaves + "_ids");
  KILN_ASSIGN_OR_RETURN(const std::vector<double> weights, RealsOf(node, leaves + "_weights"));
  if (weight_trees.size() != weights.size() || weight_ids.size() != weights.size() || targets.size() != weights.size())
    return node.Bad(absl::StrCat("attributes ", leaves, "_… are not one for each weight"));
  for (size_t i = 0; i < weights.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t leaf, place(weight_trees[i], weight_ids[i]));
    forest.weights.push_back({leaf, targets[i], weights[i]});
  }
  return forest;
}

Result TreeEnsembleRegressor(Node& node) {
  KILN_ASSIGN_OR_RETURN(const std::string transform, PostTransform(node, node.Int("n_targets", 1)));
  KILN_ASSIGN_OR_RETURN(const Aggregate* aggregate, AggregateOf(node));
  KILN_ASSIGN_OR_RETURN(Forest forest, ReadForest(node, "target"));
  forest.targets = node.Int("n_targets", 1);
  KILN_ASSIGN_OR_RETURN(Tensor scores, Scores(node, forest, *aggregate));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> base, RealsOf(node, "base_values"));
  const auto count = static_cast<int64_t>(base.size());
  if (count != 0 && count != forest.targets)
    return node.Bad(absl::StrCat(count, " base_values for ", forest.targets, " targets"));
  if (count != 0 && scores.valid()) scores = scores + node.Make(base, {count}, scores.dtype());
  return Cast(Transformed(scores, transform), v1::FLOAT32);
}

// Of two classes often only one has weights. Then its score decides: if no weight is below 0 it is a share of 1, and
// more than half is the second class; else more than 0 is.
Result TreeEnsembleClassifier(Node& node) {
  KILN_ASSIGN_OR_RETURN(const std::string transform, PostTransform(node, 0));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, Labels(node, "classlabels_int64s"));
  KILN_ASSIGN_OR_RETURN(Forest forest, ReadForest(node, "class"));
  forest.targets = static_cast<int64_t>(labels.size());
  std::set<int64_t> weighted;
  bool shares = true;
  for (const Forest::Weight& weight : forest.weights) {
    weighted.insert(weight.target);
    shares = shares && weight.weight >= 0;
  }
  KILN_ASSIGN_OR_RETURN(Tensor scores, Scores(node, forest, kAggregates[1]));
  if (!scores.valid()) return scores;
  KILN_ASSIGN_OR_RETURN(const std::vector<double> base, RealsOf(node, "base_values"));
  const auto count = static_cast<int64_t>(base.size());
  const bool one = labels.size() == 2 && weighted.size() == 1, second = one && *weighted.begin() == 1;
  if (count != 0 && labels.size() == 2 && (!one || second || count != 1))
    return node.Refuse("base_values of two classes; one number is taken, where the first class alone has weights");
  if (count != 0 && !one && count != forest.targets)
    return node.Bad(absl::StrCat(count, " base_values for ", labels.size(), " classes"));
  if (count != 0) scores = scores + node.Make(base, {count}, scores.dtype());
  const auto made = [&](Tensor places, Tensor shown) {
    return std::vector<Tensor>{LabelsAt(node, labels, places), Cast(shown, v1::FLOAT32)};
  };
  if (!one) return made(ArgMax(scores, 1), Transformed(scores, transform));
  const Tensor score = Part(scores, 1, second ? 1 : 0, second ? 2 : 1);
  const Tensor places = Squeeze(Cast(score > (shares ? 0.5 : 0.0), v1::INT32), 1);
  if (second) return made(places, Transformed(scores, transform));
  KILN_ASSIGN_OR_RETURN(const Tensor both, OfTwoClasses(node, score, transform, shares));
  return made(places, both);
}

// TreeEnsemble of version 5: nodes and leaves are two lists, and a node says of either side which list it leads to.
// A set of numbers is a chain of nodes, one for each number, that lead to the same place.
absl::StatusOr<Forest> ReadEnsemble(Node& node) {
  Forest forest;
  KILN_ASSIGN_OR_RETURN(forest.split, RealsOfTensor(node, "nodes_splits"));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> modes, RealsOfTensor(node, "nodes_modes"));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> weights, RealsOfTensor(node, "leaf_weights"));
  std::vector<double> members;
  if (node.HasAttribute("membership_values")) {
    KILN_ASSIGN_OR_RETURN(members, RealsOfTensor(node, "membership_values"));
  }
  forest.feature = node.Ints("nodes_featureids");
  forest.on_true = node.Ints("nodes_truenodeids");
  forest.on_false = node.Ints("nodes_falsenodeids");
  const std::vector<int64_t> true_leaf = node.Ints("nodes_trueleafs"), false_leaf = node.Ints("nodes_falseleafs");
  const std::vector<int64_t> targets = node.Ints("leaf_targetids");
  const size_t nodes = forest.feature.size();
  forest.missing_is_true = node.Ints("nodes_missing_value_tracks_true", std::vector<int64_t>(nodes));
  for (const size_t count : {forest.split.size(), modes.size(), forest.on_true.size(), forest.on_false.size(),
                             true_leaf.size(), false_leaf.size(), forest.missing_is_true.size()}) {
    if (count != nodes) return node.Bad("attributes nodes_… are not one for each node");
  }
  if (targets.size() != weights.size()) return node.Bad("attributes leaf_… are not one for each leaf");
  const auto first_leaf = static_cast<int64_t>(nodes), leaves = static_cast<int64_t>(targets.size());
  const auto place = [&](int64_t id, bool leaf) -> absl::StatusOr<int64_t> {
    if (id >= 0 && id < (leaf ? leaves : first_leaf)) return leaf ? first_leaf + id : id;
    return node.Bad(absl::StrCat("there is no ", leaf ? "leaf " : "node ", id));
  };
  for (size_t i = 0; i < nodes; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= kMember))
      return node.Bad(absl::StrCat("node ", i, " has no mode that there is"));
    forest.mode.push_back(static_cast<int64_t>(modes[i]));
    KILN_ASSIGN_OR_RETURN(forest.on_true[i], place(forest.on_true[i], true_leaf[i] != 0));
    KILN_ASSIGN_OR_RETURN(forest.on_false[i], place(forest.on_false[i], false_leaf[i] != 0));
  }
  for (int64_t i = 0; i < leaves; ++i) {
    forest.mode.push_back(kLeaf);
    forest.feature.push_back(0);
    forest.on_true.push_back(first_leaf + i);
    forest.on_false.push_back(first_leaf + i);
    forest.missing_is_true.push_back(0);
    forest.split.push_back(0);
    forest.weights.push_back({first_leaf + i, targets[i], weights[i]});
  }
  // The sets stand one after the other, a NaN after each.
  auto member = members.begin();
  for (size_t i = 0; i < nodes; ++i) {
    if (forest.mode[i] != kMember) continue;
    if (member == members.end() || *member != *member) return node.Bad(absl::StrCat("node ", i, " has no members"));
    forest.mode[i] = kEqual;
    forest.split[i] = *member++;
    size_t last = i;
    for (; member != members.end() && *member == *member; ++member) {
      forest.mode.push_back(kEqual);
      forest.feature.push_back(forest.feature[i]);
      forest.on_true.push_back(forest.on_true[i]);
      forest.on_false.push_back(forest.on_false[last]);
      forest.missing_is_true.push_back(forest.missing_is_true[i]);
      forest.split.push_back(*member);
      forest.on_false[last] = forest.size() - 1;
      last = forest.mode.size() - 1;
    }
    if (member != members.end()) ++member;
  }
  for (const int64_t root : node.Ints("tree_roots")) {
    KILN_ASSIGN_OR_RETURN(const int64_t at, place(root, false));
    forest.roots.push_back(at);
  }
  if (forest.roots.empty()) return node.Bad("there are no tree_roots");
  forest.targets = node.Int("n_targets", 1);
  return forest;
}

Result TreeEnsemble(Node& node) {
  static constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t transform = node.Int("post_transform"), aggregate = node.Int("aggregate_function", 1);
  if (transform < 0 || transform >= static_cast<int64_t>(std::size(kTransforms)) || aggregate < 0 ||
      aggregate >= static_cast<int64_t>(std::size(kAggregates))) {
    return node.Bad("post_transform is from 0 to 4, aggregate_function from 0 to 3");
  }
  KILN_ASSIGN_OR_RETURN(const Forest forest, ReadEnsemble(node));
  if (forest.targets == 1 && transform >= 1 && transform <= 3)
    return node.Refuse(absl::StrCat("post_transform ", kTransforms[transform], " of one target; 0 is taken"));
  KILN_ASSIGN_OR_RETURN(const Tensor scores, Scores(node, forest, kAggregates[aggregate]));
  return Cast(Transformed(scores, kTransforms[transform]), node.In(0).dtype());
}

constexpr OpRow kRows[] = {
    {"TreeEnsembleRegressor", 1, TreeEnsembleRegressor, 1, 1, kMl},
    {"TreeEnsembleClassifier", 1, TreeEnsembleClassifier, 1, 1, kMl},
    {"TreeEnsemble", 5, TreeEnsemble, 1, 1, kMl},
};

}  // namespace

OpRows MlTreeOps() { return kRows; }

}  // namespace kiln::onnx
