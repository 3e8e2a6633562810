// RNN, GRU and LSTM, unrolled: a turn for each element of the sequence.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// An activation with its two parameters.
struct Activation {
  std::string name;
  double alpha, beta;
  Tensor operator()(Tensor x) const {
    if (name == "Sigmoid") return Sigmoid(x);
    if (name == "Tanh") return Tanh(x);
    if (name == "Relu") return Relu(x);
    if (name == "Affine") return x * alpha + beta;
    if (name == "LeakyRelu") return Where(x < 0.0, x * alpha, x);
    if (name == "ThresholdedRelu") return Where(x > alpha, x, 0.0);
    if (name == "ScaledTanh") return Tanh(x * beta) * alpha;
    if (name == "HardSigmoid") return Clamp(x * alpha + beta, 0, 1);
    if (name == "Elu") return Where(x < 0.0, (Exp(x) - 1.0) * alpha, x);
    if (name == "Softsign") return x / (1.0 + Abs(x));
    return Log(1.0 + Exp(x));  // Softplus
  }
};

struct DefaultParameters {
  const char* name;
  double alpha, beta;
};
constexpr DefaultParameters kActivations[] = {
    {"Sigmoid", 0, 0},      {"Tanh", 0, 0},
    {"Relu", 0, 0},         {"Affine", 1, 0},
    {"LeakyRelu", 0.01, 0}, {"ThresholdedRelu", 1, 0},
    {"ScaledTanh", 1, 1},   {"HardSigmoid", 0.2, 0.5},
    {"Elu", 1, 0},          {"Softsign", 0, 0},
    {"Softplus", 0, 0},
};

// What all three have: x (length, batch, in), w (directions, gates * hidden, in), r (…, hidden),
// b (directions, 2 * gates * hidden).
struct Layer {
  Tensor x, w, r, b, lengths, state, cell, peepholes;
  int64_t length = 0, directions = 1, hidden = 0, gates = 1;
  bool backward = false, batch_first = false;
  double clip = 0;
  std::vector<Activation> activations;
};

absl::StatusOr<Layer> LayerOf(Node& node, int64_t gates, const std::vector<std::string>& defaults) {
  Layer layer;
  layer.gates = gates;
  layer.batch_first = node.Int("layout") != 0;
  if (node.In(0).rank() != 3 || node.In(1).rank() != 3 || node.In(2).rank() != 3)
    return node.Bad("input, weights and recurrence are of rank 3");
  layer.x = layer.batch_first ? Permute(node.In(0), {1, 0, 2}) : node.In(0);
  layer.w = node.In(1);
  layer.r = node.In(2);
  layer.b = node.In(3);
  layer.lengths = node.In(4);
  const auto turned = [&](Tensor state) {
    return state.valid() && layer.batch_first ? Permute(state, {1, 0, 2}) : state;
  };
  layer.state = turned(node.In(5));
  layer.cell = turned(node.In(6));
  layer.peepholes = node.In(7);
  KILN_ASSIGN_OR_RETURN(layer.length, node.Dim(layer.x, 0));
  KILN_ASSIGN_OR_RETURN(layer.hidden, node.Dim(layer.r, 2));
  KILN_RETURN_IF_ERROR(node.CheckTurns(layer.length));
  const std::string direction = node.Text("direction", "forward");
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.backward = direction == "reverse";
  if (layer.length < 1 || layer.hidden < 1) return node.Bad("a sequence or a state of nothing");
  if (layer.w.size(0) != layer.directions || layer.r.size(0) != layer.directions ||
      layer.w.size(1) != gates * layer.hidden || layer.r.size(1) != gates * layer.hidden) {
    return node.Bad(absl::StrCat("weights of ", ShapeText(layer.w.sizes()), " and ", ShapeText(layer.r.sizes()),
                                 " for ", layer.directions, " directions and ", gates, " gates"));
  }
  layer.clip = node.Float("clip");
  std::vector<std::string> names = node.Texts("activations");
  if (names.empty()) {
    for (int64_t i = 0; i < layer.directions; ++i) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != defaults.size() * static_cast<size_t>(layer.directions))
    return node.Bad("the activations are not as many as the gates want");
  const std::vector<double> alphas = node.Floats("activation_alpha"), betas = node.Floats("activation_beta");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto* row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const DefaultParameters& one) { return one.name == names[i]; });
    if (row == std::end(kActivations))
      return node.Refuse(absl::StrCat("the activation \"", absl::CHexEscape(names[i].substr(0, 40)), "\""));
    layer.activations.push_back(
        {names[i], i < alphas.size() ? alphas[i] : row->alpha, i < betas.size() ? betas[i] : row->beta});
  }
  return layer;
}

// One direction as its cell sees it: bias (gates * hidden) halves, and the state so far.
struct Direction {
  Tensor w, r, input_bias, state_bias, peepholes, state, cell;
  const Activation* activations;
};

// One turn: from x_t (batch, gates * hidden), already times w, and the direction's state, the new state.
using Turn = Tensor (*)(Node& node, const Layer& layer, Direction& at, Tensor x);

Tensor Clipped(const Layer& layer, Tensor x) { return layer.clip > 0 ? Clamp(x, -layer.clip, layer.clip) : x; }
Tensor GatePart(const Layer& layer, Tensor x, int64_t gate) {
  return Part(x, x.rank() - 1, gate * layer.hidden, (gate + 1) * layer.hidden);
}

absl::StatusOr<Outputs> Unrolled(Node& node, const Layer& layer, Turn turn) {
  Graph& graph = node.graph();
  const Size batch = layer.x.size(1);
  const auto row = [](Tensor x, int64_t at) { return x.valid() ? Squeeze(Part(x, 0, at, at + 1), 0) : x; };
  std::vector<Tensor> all, states, cells;
  for (int64_t direction = 0; direction < layer.directions; ++direction) {
    Direction at;
    at.w = row(layer.w, direction);
    at.r = Transpose(row(layer.r, direction));
    const int64_t width = layer.gates * layer.hidden;
    if (layer.b.valid()) {
      const Tensor bias = row(layer.b, direction);
      at.input_bias = Part(bias, 0, 0, width);
      at.state_bias = Part(bias, 0, width, 2 * width);
    } else {
      at.input_bias = at.state_bias = graph.Zeros({width}, layer.x.dtype());
    }
    at.peepholes = row(layer.peepholes, direction);
    const Tensor nothing = graph.Zeros({batch, layer.hidden}, layer.x.dtype());
    at.state = layer.state.valid() ? row(layer.state, direction) : nothing;
    at.cell = layer.cell.valid() ? row(layer.cell, direction) : nothing;
    at.activations = &layer.activations[static_cast<size_t>(direction) * layer.activations.size() /
                                        static_cast<size_t>(layer.directions)];
    const bool backward = layer.backward || direction == 1;
    const Tensor projected = Matmul(layer.x, Transpose(at.w));
    std::vector<Tensor> outputs(static_cast<size_t>(layer.length));
    for (int64_t i = 0; i < layer.length; ++i) {
      const int64_t time = backward ? layer.length - 1 - i : i;
      const Tensor state = at.state, cell = at.cell;
      Tensor made = turn(node, layer, at, row(projected, time));
      if (layer.lengths.valid()) {
        // Beyond a batch's end its state stays, and what it gives is 0.
        const Tensor live = Unsqueeze(Cast(layer.lengths, v1::INT64) > time, 1);
        at.state = Where(live, made, state);
        at.cell = Where(live, at.cell, cell);
        made = Where(live, made, Filled(made, 0));
      } else {
        at.state = made;
      }
      outputs[static_cast<size_t>(time)] = made;
      KILN_RETURN_IF_ERROR(graph.status());
    }
    all.push_back(Stack(outputs));
    states.push_back(at.state);
    cells.push_back(at.cell);
  }
  Tensor sequence = Stack(all, 1), state = Stack(states), cell = Stack(cells);
  if (layer.batch_first) {
    sequence = Permute(sequence, {2, 0, 1, 3});
    state = Permute(state, {1, 0, 2});
    cell = Permute(cell, {1, 0, 2});
  }
  return std::vector<Tensor>{sequence, state, cell};
}

Result Rnn(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Layer layer, LayerOf(node, 1, {"Tanh"}));
  return Unrolled(node, layer, [](Node&, const Layer& l, Direction& at, Tensor x) {
    return at.activations[0](Clipped(l, x + at.input_bias + Matmul(at.state, at.r) + at.state_bias));
  });
}

// Gates in the order update, reset, hidden.
Result Gru(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Layer layer, LayerOf(node, 3, {"Sigmoid", "Tanh"}));
  return Unrolled(node, layer, [](Node& gru, const Layer& l, Direction& at, Tensor x) {
    const Tensor inner = x + at.input_bias, outer = Matmul(at.state, at.r) + at.state_bias;
    const auto gate = [&](int64_t i) {
      return at.activations[0](Clipped(l, GatePart(l, inner, i) + GatePart(l, outer, i)));
    };
    const Tensor update = gate(0), reset = gate(1);
    Tensor hidden;
    if (gru.Int("linear_before_reset") != 0) {
      hidden = GatePart(l, inner, 2) + reset * GatePart(l, outer, 2);
    } else {
      hidden = GatePart(l, inner, 2) + Matmul(reset * at.state, GatePart(l, at.r, 2)) + GatePart(l, at.state_bias, 2);
    }
    return (1.0 - update) * at.activations[1](Clipped(l, hidden)) + update * at.state;
  });
}

// Gates in the order input, output, forget, cell; peepholes in the order input, output, forget.
Result Lstm(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Layer layer, LayerOf(node, 4, {"Sigmoid", "Tanh", "Tanh"}));
  return Unrolled(node, layer, [](Node& lstm, const Layer& l, Direction& at, Tensor x) {
    const Tensor gates = x + at.input_bias + Matmul(at.state, at.r) + at.state_bias;
    const auto peep = [&](int64_t i, Tensor cell) {
      const Tensor gate = GatePart(l, gates, i);
      return at.peepholes.valid() ? gate + GatePart(l, at.peepholes, i) * cell : gate;
    };
    const Tensor input = at.activations[0](Clipped(l, peep(0, at.cell)));
    const Tensor forget = lstm.Int("input_forget") != 0 ? 1.0 - input : at.activations[0](Clipped(l, peep(2, at.cell)));
    at.cell = forget * at.cell + input * at.activations[1](Clipped(l, GatePart(l, gates, 3)));
    const Tensor output = at.activations[0](Clipped(l, peep(1, at.cell)));
    return output * at.activations[2](at.cell);
  });
}

// The cell is LSTM's alone.
template <absl::StatusOr<Outputs> (*kLayer)(Node&)>
Result WithoutCell(Node& node) {
  KILN_ASSIGN_OR_RETURN(Outputs outputs, kLayer(node));
  outputs.values.pop_back();
  return outputs;
}

constexpr OpRow kRows[] = {
    {"RNN", 7, WithoutCell<Rnn>, 3, 6},
    {"GRU", 7, WithoutCell<Gru>, 3, 6},
    {"LSTM", 7, Lstm, 3, 8},
};

}  // namespace

OpRows RecurrentOps() { return kRows; }

}  // namespace kiln::onnx
