#include "tests/reduce/edit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/graph/graph_text.h"

namespace kiln::testing {
namespace {

double Magnitude(const v1::ConstArg& constant) {
  switch (constant.value_case()) {
    case v1::ConstArg::kB: return constant.b() ? 1 : 0;
    case v1::ConstArg::kI: return std::fabs(static_cast<double>(constant.i())) + (constant.i() < 0 ? 1 : 0);
    case v1::ConstArg::kU: return static_cast<double>(constant.u());
    case v1::ConstArg::kF:
      if (constant.f() == 0 && !std::signbit(constant.f())) return 0;
      return constant.f() == 1 ? 1 : 2;  // which number it is, the text's length says
    case v1::ConstArg::kBits: return constant.bits() == 0 ? 0 : 3;
    case v1::ConstArg::kDecimal: return 1e30;
    default: return 3;
  }
}

bool Opens(v1::Op op) { return op == v1::RANGE || op == v1::LOOP || op == v1::IF; }

bool Closes(v1::Op op) { return op == v1::END || op == v1::ENDLOOP || op == v1::ENDRANGE || op == v1::ENDIF; }

// The body of a function knows its own PARAMs alone.
bool HasBody(v1::Op op) { return op == v1::FUNCTION || op == v1::CALL || op == v1::KERNEL; }

// new_of[i] is what stands for node i.
void Rename(const std::vector<uint32_t>& new_of, v1::UOp& node) {
  for (uint32_t& source : *node.mutable_src()) source = new_of[source];
}

}  // namespace

Weight WeightOf(const v1::Graph& graph) {
  int sources = 0;
  double numbers = 0;
  for (const v1::UOp& node : graph.nodes()) {
    sources += node.src_size();
    if (node.has_constant()) numbers += Magnitude(node.constant());
    if (node.has_buffer()) numbers += node.buffer().slot();
    if (node.has_index()) numbers += std::fabs(static_cast<double>(node.index()));
    if (node.has_data()) numbers += static_cast<double>(node.data().size());
  }
  return {graph.nodes_size(), sources, numbers, PrintGraph(graph).size()};
}

bool IsOrdered(const v1::Graph& graph) {
  for (int i = 0; i < graph.nodes_size(); ++i) {
    for (uint32_t source : graph.nodes(i).src()) {
      if (source >= static_cast<uint32_t>(i)) return false;
    }
  }
  return true;
}

v1::Graph OnlyReached(const v1::Graph& graph) {
  std::vector<bool> reached(graph.nodes_size(), false);
  if (!reached.empty()) reached.back() = true;
  for (int i = graph.nodes_size() - 1; i >= 0; --i) {
    if (!reached[i]) continue;
    for (uint32_t source : graph.nodes(i).src()) reached[source] = true;
  }
  v1::Graph result;
  result.set_dialect(graph.dialect());
  std::vector<uint32_t> new_of(graph.nodes_size(), 0);
  for (int i = 0; i < graph.nodes_size(); ++i) {
    if (!reached[i]) continue;
    new_of[i] = result.nodes_size();
    v1::UOp& node = *result.add_nodes();
    node = graph.nodes(i);
    Rename(new_of, node);
  }
  return result;
}

v1::Graph Merged(const v1::Graph& graph) {
  v1::Graph result;
  result.set_dialect(graph.dialect());
  std::vector<uint32_t> new_of;
  absl::flat_hash_map<std::string, uint32_t> found;
  for (const v1::UOp& original : graph.nodes()) {
    v1::UOp node = original;
    Rename(new_of, node);
    const bool root = static_cast<int>(new_of.size()) + 1 == graph.nodes_size();
    const auto [at, is_new] = found.emplace(node.SerializeAsString(), result.nodes_size());
    if (is_new || root) *result.add_nodes() = node;
    new_of.push_back(at->second);
  }
  return OnlyReached(result);
}

v1::Graph WithUses(const v1::Graph& graph, uint32_t at, uint32_t by) {
  v1::Graph result = graph;
  if (static_cast<int>(at) + 1 == graph.nodes_size()) {
    result.mutable_nodes()->DeleteSubrange(static_cast<int>(by) + 1, graph.nodes_size() - static_cast<int>(by) - 1);
    return OnlyReached(result);
  }
  for (v1::UOp& node : *result.mutable_nodes()) {
    const bool listed = node.op() == v1::LINEAR && std::count(node.src().begin(), node.src().end(), by) > 0;
    google::protobuf::RepeatedField<uint32_t> src;
    for (uint32_t source : node.src()) {
      if (source != at) {
        src.Add(source);
      } else if (!listed) {
        src.Add(by);
      }
    }
    node.mutable_src()->Swap(&src);
  }
  return OnlyReached(result);
}

v1::Graph WithNode(const v1::Graph& graph, uint32_t at, const std::vector<v1::UOp>& made) {
  v1::Graph result;
  result.set_dialect(graph.dialect());
  const uint32_t more = static_cast<uint32_t>(made.size()) - 1;
  for (int i = 0; i < graph.nodes_size(); ++i) {
    if (i == static_cast<int>(at)) {
      for (const v1::UOp& node : made) *result.add_nodes() = node;
      continue;
    }
    v1::UOp& node = *result.add_nodes();
    node = graph.nodes(i);
    for (uint32_t& source : *node.mutable_src()) {
      if (source >= at) source += more;
    }
  }
  return OnlyReached(result);
}

v1::Graph WithoutSources(const v1::Graph& graph, uint32_t at, int begin, int end) {
  v1::Graph result = graph;
  auto& src = *result.mutable_nodes(static_cast<int>(at))->mutable_src();
  src.erase(src.begin() + begin, src.begin() + end);
  return OnlyReached(result);
}

v1::Graph WithoutEntries(const v1::Graph& graph, uint32_t list, int begin, int end) {
  const v1::UOp& old = graph.nodes(static_cast<int>(list));
  std::vector<bool> gone(graph.nodes_size(), false);
  for (int k = begin; k < end; ++k) gone[old.src(k)] = true;
  for (uint32_t i = 0; i < list; ++i) {
    for (uint32_t source : graph.nodes(static_cast<int>(i)).src()) {
      if (gone[source]) gone[i] = true;
    }
  }
  v1::Graph result = graph;
  v1::UOp& node = *result.mutable_nodes(static_cast<int>(list));
  node.clear_src();
  for (uint32_t source : old.src()) {
    if (!gone[source]) node.add_src(source);
  }
  return OnlyReached(result);
}

std::optional<v1::Graph> WithoutLoop(const v1::Graph& graph, uint32_t at, v1::DType dtype) {
  if (!Opens(graph.nodes(static_cast<int>(at)).op())) return std::nullopt;
  v1::Graph result;
  result.set_dialect(graph.dialect());
  std::vector<uint32_t> new_of;  // of a closer that closes nothing else: its body, or kNothing
  constexpr uint32_t kNothing = ~uint32_t{0};
  for (int i = 0; i < graph.nodes_size(); ++i) {
    v1::UOp node = graph.nodes(i);
    if (i == static_cast<int>(at)) {
      node.Clear();
      node.set_op(v1::CONST);
      node.mutable_constant()->set_dtype(dtype);
      node.mutable_constant()->set_i(0);
    }
    const bool reduces = Closes(node.op()) || node.op() == v1::REDUCE || node.op() == v1::LINEAR;
    google::protobuf::RepeatedField<uint32_t> src;
    bool closed = false;
    for (uint32_t source : node.src()) {
      closed |= source == at;
      if (new_of[source] == kNothing || (source == at && reduces)) continue;
      src.Add(new_of[source]);
    }
    node.mutable_src()->Swap(&src);
    const bool reduced_all = closed && reduces && node.op() != v1::LINEAR && node.src_size() <= 1;
    if (reduced_all) {
      new_of.push_back(node.src_size() == 1 ? node.src(0) : kNothing);
      continue;
    }
    new_of.push_back(result.nodes_size());
    *result.add_nodes() = std::move(node);
  }
  if (result.nodes_size() == 0 || new_of.back() == kNothing) return std::nullopt;
  return OnlyReached(result);
}

std::optional<v1::Graph> Inlined(const v1::Graph& graph, uint32_t at) {
  const v1::UOp& user = graph.nodes(static_cast<int>(at));
  const v1::UOp* call = &user;
  if (user.op() == v1::GETTUPLE && user.src_size() == 1) call = &graph.nodes(static_cast<int>(user.src(0)));
  if (!HasBody(call->op()) || call->src_size() == 0) return std::nullopt;
  uint32_t body = call->src(0);
  if (user.op() == v1::GETTUPLE) {
    const v1::UOp& tuple = graph.nodes(static_cast<int>(body));
    if (tuple.op() != v1::TUPLE || user.index() < 0 || user.index() >= tuple.src_size()) return std::nullopt;
    body = tuple.src(static_cast<int>(user.index()));
  }
  std::vector<bool> inside(body + 1, false);
  inside[body] = true;
  for (int i = static_cast<int>(body); i >= 0; --i) {
    if (!inside[i]) continue;
    const v1::UOp& node = graph.nodes(i);
    for (int k = HasBody(node.op()) ? 1 : 0; k < node.src_size(); ++k) inside[node.src(k)] = true;
  }
  std::vector<v1::UOp> made;
  std::vector<uint32_t> new_of(body + 1, 0);
  for (uint32_t i = 0; i <= body; ++i) {
    new_of[i] = i;
    if (!inside[i]) continue;
    v1::UOp node = graph.nodes(static_cast<int>(i));
    if (node.op() == v1::PARAM && static_cast<int>(node.buffer().slot()) + 1 < call->src_size()) {
      new_of[i] = call->src(static_cast<int>(node.buffer().slot()) + 1);
      continue;
    }
    Rename(new_of, node);
    new_of[i] = at + static_cast<uint32_t>(made.size());
    made.push_back(std::move(node));
  }
  if (new_of[body] < at) return WithUses(graph, at, new_of[body]);
  if (made.back().op() == v1::SINK && static_cast<int>(at) + 1 < graph.nodes_size()) made.back().set_op(v1::GROUP);
  return WithNode(graph, at, made);
}

}  // namespace kiln::testing
