// Graphs in nodes: If, Loop and Scan. A program has no jumps, so loops are unrolled, and of two
// branches both are computed where the condition is not known.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <limits>
#include <optional>

#include "models/onnx/ops/common.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// A bool of one element, if it is known.
std::optional<bool> Truth(Node& node, Tensor condition) {
  const Known* known = node.Find(condition);
  const auto numbers = known != nullptr ? known->Numbers() : std::nullopt;
  if (!numbers || numbers->size() != 1) return std::nullopt;
  return (*numbers)[0] != 0;
}

// Where `condition`, a, else b.
absl::StatusOr<Value> Choice(Node& node, Tensor condition, const Value& a, const Value& b) {
  if (!a.tensor.valid() || !b.tensor.valid())
    return node.Refuse("branches that give sequences or optionals under a condition that is not known");
  if (a.tensor.sizes() != b.tensor.sizes() || a.tensor.dtype() != b.tensor.dtype()) {
    return node.Refuse(absl::StrCat("branches that give ", TypeText(a.tensor.dtype(), a.tensor.sizes()), " and ",
                                    TypeText(b.tensor.dtype(), b.tensor.sizes()),
                                    " under a condition that is not known"));
  }
  return Value(Where(condition, a.tensor, b.tensor));
}

Result If(Node& node) {
  KILN_ASSIGN_OR_RETURN(const auto* yes, node.GraphOf("then_branch"));
  KILN_ASSIGN_OR_RETURN(const auto* no, node.GraphOf("else_branch"));
  if (const std::optional<bool> truth = Truth(node, node.In(0))) {
    KILN_ASSIGN_OR_RETURN(auto made, node.Run(*truth ? *yes : *no, {}));
    return Outputs(std::move(made));
  }
  KILN_ASSIGN_OR_RETURN(const auto a, node.Run(*yes, {}));
  KILN_ASSIGN_OR_RETURN(const auto b, node.Run(*no, {}));
  if (a.size() != b.size()) return node.Bad("the branches have not as many outputs as each other");
  const Tensor condition = Reshape(node.In(0), Sizes());
  std::vector<Value> outputs;
  for (size_t i = 0; i < a.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(Value value, Choice(node, condition, a[i], b[i]));
    outputs.push_back(std::move(value));
  }
  return Outputs(std::move(outputs));
}

// Turns until the trip count or a false condition. Where the condition is not known, later turns still are
// computed, up to the trip count, and change nothing once it was false.
Result Loop(Node& node) {
  KILN_ASSIGN_OR_RETURN(const auto* body, node.GraphOf("body"));
  const int64_t most = std::numeric_limits<int64_t>::max();
  int64_t turns = most;
  if (node.Has(0)) {
    KILN_ASSIGN_OR_RETURN(turns, node.Integer(0));
  }
  Graph& graph = node.graph();
  Tensor condition = node.Has(1) ? Reshape(node.In(1), Sizes()) : graph.Constant(true, v1::BOOL);
  std::vector<Value> carried;
  for (size_t i = 2; i < node.inputs(); ++i) carried.push_back(node.At(i));
  const size_t kept = carried.size();
  if (body->output_size() < static_cast<int>(kept) + 1)
    return node.Bad("the body gives fewer values than it is to carry on");
  const size_t collected = static_cast<size_t>(body->output_size()) - 1 - kept;
  std::vector<std::vector<Tensor>> rows(collected);
  Tensor active;  // Whether the turns go on, once that is not known.
  for (int64_t turn = 0; turn < turns; ++turn) {
    const std::optional<bool> truth = Truth(node, condition);
    if (truth == false) break;
    KILN_RETURN_IF_ERROR(node.CheckTurns(turn + 1));
    if (!truth) {
      if (turns == most) return node.Refuse("a loop whose number of turns is known by neither a count nor a condition");
      if (collected > 0) return node.Refuse("a loop that collects values under a condition that is not known");
      active = active.valid() ? active & condition : condition;
    }
    std::vector<Value> inputs = {graph.Constant(turn, v1::INT64), condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    KILN_ASSIGN_OR_RETURN(std::vector<Value> made, node.Run(*body, std::move(inputs)));
    KILN_RETURN_IF_ERROR(graph.status());
    if (!made[0].tensor.valid() || made[0].tensor.dtype() != v1::BOOL)
      return node.Bad("the body's first output is no condition");
    condition = Reshape(made[0].tensor, Sizes());
    for (size_t i = 0; i < kept; ++i) {
      if (active.valid()) {
        KILN_ASSIGN_OR_RETURN(carried[i], Choice(node, active, made[i + 1], carried[i]));
      } else {
        carried[i] = std::move(made[i + 1]);
      }
    }
    for (size_t i = 0; i < collected; ++i) {
      if (!made[i + 1 + kept].tensor.valid()) return node.Refuse("a loop that collects sequences");
      rows[i].push_back(made[i + 1 + kept].tensor);
    }
  }
  std::vector<Value> outputs = std::move(carried);
  for (size_t i = 0; i < collected; ++i) {
    if (rows[i].empty()) {
      if (node.Wants(kept + i)) return node.Refuse("a loop that collects values in no turns");
      outputs.emplace_back();
      continue;
    }
    outputs.emplace_back(Stack(rows[i]));
  }
  return Outputs(std::move(outputs));
}

// Over slices of inputs. Before opset 9 there was a batch axis.
Result Scan(Node& node) {
  if (node.opset() < 9) return node.Refuse("Scan before opset 9");
  KILN_ASSIGN_OR_RETURN(const auto* body, node.GraphOf("body"));
  const int64_t scanned = node.Int("num_scan_inputs"), inputs = static_cast<int64_t>(node.inputs());
  if (scanned < 1 || scanned > inputs) return node.Bad("num_scan_inputs is not from 1 to the number of inputs");
  const int64_t states = inputs - scanned, collected = body->output_size() - states;
  if (collected < 0) return node.Bad("the body gives fewer values than it is to carry on");
  const auto list = [&](const char* name, int64_t count) {
    return node.Ints(name, std::vector<int64_t>(static_cast<size_t>(count), 0));
  };
  const auto from = list("scan_input_axes", scanned), back = list("scan_input_directions", scanned);
  const auto to = list("scan_output_axes", collected), reversed = list("scan_output_directions", collected);
  if (static_cast<int64_t>(from.size()) != scanned || static_cast<int64_t>(back.size()) != scanned ||
      static_cast<int64_t>(to.size()) != collected || static_cast<int64_t>(reversed.size()) != collected) {
    return node.Bad("axes or directions are not as many as what is scanned");
  }
  std::vector<Tensor> sources;
  int64_t turns = -1;
  for (int64_t i = 0; i < scanned; ++i) {
    const Tensor x = node.In(static_cast<size_t>(states + i));
    KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(from[i], x.rank()));
    std::vector<int64_t> order = AllAxes(x.rank());
    std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
    Tensor turned = Permute(x, order);
    if (back[i] != 0) turned = Flip(turned, {0});
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(turned, 0));
    if (turns >= 0 && size != turns) return node.Bad("what is scanned is not equally long");
    turns = size;
    sources.push_back(turned);
  }
  KILN_RETURN_IF_ERROR(node.CheckTurns(turns));
  std::vector<Value> carried;
  for (int64_t i = 0; i < states; ++i) carried.push_back(node.At(static_cast<size_t>(i)));
  std::vector<std::vector<Tensor>> rows(static_cast<size_t>(collected));
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::vector<Value> arguments = carried;
    for (const Tensor& source : sources) arguments.emplace_back(Squeeze(Part(source, 0, turn, turn + 1), 0));
    KILN_ASSIGN_OR_RETURN(std::vector<Value> made, node.Run(*body, std::move(arguments)));
    KILN_RETURN_IF_ERROR(node.graph().status());
    for (int64_t i = 0; i < collected; ++i) {
      if (!made[static_cast<size_t>(states + i)].tensor.valid()) return node.Bad("the body collects no tensor");
      rows[i].push_back(made[static_cast<size_t>(states + i)].tensor);
    }
    made.resize(static_cast<size_t>(states));
    carried = std::move(made);
  }
  std::vector<Value> outputs = std::move(carried);
  for (int64_t i = 0; i < collected; ++i) {
    if (rows[i].empty()) return node.Refuse("a scan over nothing");
    if (reversed[i] != 0) std::reverse(rows[i].begin(), rows[i].end());
    KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(to[i], rows[i][0].rank() + 1));
    outputs.emplace_back(Stack(rows[i], axis));
  }
  return Outputs(std::move(outputs));
}

constexpr OpRow kRows[] = {
    {"If", 1, If, 1, 1},
    {"Loop", 1, Loop, 0, kAny, kStandard, true},
    {"Scan", 8, Scan, 1, kAny},
};

}  // namespace

OpRows ControlOps() { return kRows; }

}  // namespace kiln::onnx
