// Tested by tests/e2e/serving/pooled_graph_test.cc.
#include "server/models/sequences/pooled_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"

namespace kiln::server {
namespace {

absl::Status Refused(absl::string_view name, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(std::string(name));
  return MakeError(std::move(detail), absl::StrCat("sequence_batching: \"", absl::CHexEscape(name), "\" ", what));
}

template <typename Tensors>
absl::StatusOr<size_t> PlaceOf(const Tensors& tensors, const std::string& name, absl::string_view what) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& each) { return each.name == name; });
  if (found == tensors.end()) return Refused(name, absl::StrCat("is to be state, and is no ", what, " of the model"));
  return static_cast<size_t>(found - tensors.begin());
}

// Nodes of a graph that is written anew, in order.
class Writer {
 public:
  explicit Writer(v1::Graph* graph) : graph_(graph) {}

  uint32_t Add(v1::UOp uop) {
    *graph_->add_nodes() = std::move(uop);
    return static_cast<uint32_t>(graph_->nodes_size() - 1);
  }
  uint32_t Add(v1::Op op, const std::vector<uint32_t>& sources) {
    v1::UOp uop;
    uop.set_op(op);
    uop.mutable_src()->Add(sources.begin(), sources.end());
    return Add(std::move(uop));
  }
  uint32_t Integer(int64_t value, v1::DType dtype = v1::WEAKINT) {
    v1::UOp uop;
    uop.set_op(v1::CONST);
    uop.mutable_constant()->set_dtype(dtype);
    uop.mutable_constant()->set_i(value);
    return Add(std::move(uop));
  }
  uint32_t Param(uint32_t slot, v1::DType dtype, uint32_t shape, const std::string& name) {
    v1::UOp uop;
    uop.set_op(v1::PARAM);
    uop.add_src(shape);
    uop.mutable_buffer()->set_slot(slot);
    uop.mutable_buffer()->set_dtype(dtype);
    uop.mutable_buffer()->set_name(name);
    return Add(std::move(uop));
  }

 private:
  v1::Graph* const graph_;
};

uint32_t FirstFreeSlot(const onnx::Model& model) {
  uint32_t next = 0;
  for (const auto& input : model.inputs) next = std::max(next, input.slot + 1);
  for (const auto& variable : model.variables) next = std::max(next, variable.slot + 1);
  for (const auto& constant : model.constants) next = std::max(next, constant.slot + 1);
  return next;
}

}  // namespace

absl::StatusOr<ModelStates> FindStates(const onnx::Model& model, const SequenceConfig& config) {
  ModelStates found;
  std::set<size_t> inputs;
  for (const SequenceConfig::State& named : config.states) {
    ModelStates::State state;
    KILN_ASSIGN_OR_RETURN(state.input, PlaceOf(model.inputs, named.input, "input"));
    KILN_ASSIGN_OR_RETURN(state.output, PlaceOf(model.outputs, named.output, "output"));
    const onnx::Model::Input& input = model.inputs[state.input];
    const onnx::Model::Output& output = model.outputs[state.output];
    if (output.index.has_value() || !output.result.has_value())
      return Refused(named.output, "is to be state, and is no tensor");
    if (!input.used) return Refused(named.input, "is to be state, and the model does not read it");
    if (output.dtype != input.dtype || output.shape != input.shape)
      return Refused(named.output, absl::StrCat("differs from the input \"", absl::CHexEscape(named.input),
                                                "\" in type or shape; it is to be that input's next value"));
    state.row_bytes = runtime::StoredBytes(input.dtype);
    for (size_t axis = 1; axis < input.shape.size(); ++axis) {
      const std::optional<int64_t> size = input.shape[axis].number();
      if (!size.has_value())
        return Refused(named.input, "is state of a size that each call decides; it must have one size");
      state.row.push_back(*size);
      const auto factor = static_cast<uint64_t>(*size);
      if (factor != 0 && state.row_bytes > std::numeric_limits<int64_t>::max() / factor)
        return Refused(named.input, "has more bytes than any memory");
      state.row_bytes *= factor;
    }
    if (state.row_bytes == 0) return Refused(named.input, "is state without elements");
    inputs.insert(state.input);
    found.states.push_back(std::move(state));
  }
  if (inputs.size() == model.inputs.size())
    return Refused(config.states[0].input, "and all other inputs are state; a request must bring one that is not");
  const client::Sizes& first = model.inputs[found.states[0].input].shape;
  const auto begins = [&first](const client::Sizes& shape) { return !shape.empty() && shape[0] == first[0]; };
  constexpr char kWhy[] = "does not begin with the size that a state begins with, which is how many sequences are run";
  if (first.empty() || first[0].number().has_value())
    return Refused(config.states[0].input,
                   "has no first size that a call decides, of how many sequences are run together: a dimension with a "
                   "name, for which --model_sizes has more than one value");
  const client::Size::Terms terms = first[0].terms();
  found.batch = terms.begin()->first.front();  // an input's size is a variable itself
  // A request is of one sequence, and nobody can say how many come together.
  if (found.batch.least > 1)
    return Refused(
        config.states[0].input,
        absl::StrCat("begins with the size \"", absl::CHexEscape(found.batch.name), "\", which is ", found.batch.least,
                     " or more; it says how many sequences are run together: --model_sizes must let it be 1"));
  for (const onnx::Model::Input& input : model.inputs) {
    if (!begins(input.shape)) return Refused(input.name, kWhy);
  }
  for (const onnx::Model::Output& output : model.outputs) {
    if (!begins(output.shape)) return Refused(output.name, kWhy);
  }
  return found;
}

absl::StatusOr<PooledGraph> PoolStates(const onnx::Model& model, const ModelStates& found, int64_t slots) {
  PooledGraph pooled;
  pooled.from_slot = FirstFreeSlot(model);
  pooled.row_of_slot = pooled.from_slot + 1;
  pooled.graph = model.graph;
  pooled.graph.clear_nodes();
  Writer out(&pooled.graph);

  std::map<uint32_t, const ModelStates::State*> by_slot;
  std::set<size_t> state_results;
  for (const ModelStates::State& state : found.states) {
    if (state.row_bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / slots))
      return MakeError(v1::SIZE_OVERFLOW, absl::StrCat(slots, " states of ", state.row_bytes, " bytes are too many"));
    by_slot[model.inputs[state.input].slot] = &state;
    state_results.insert(*model.outputs[state.output].result);
  }
  // The lists. Of `from` the size is the variable that the states begin with, written once more: equal nodes are one.
  const uint32_t all = out.Integer(slots);
  const uint32_t row_of = out.Param(pooled.row_of_slot, v1::INT32, out.Add(v1::STACK, {all}), "row_of");
  const uint32_t is_written = out.Add(v1::NOT, {out.Add(v1::CMPLT, {row_of, out.Integer(0, v1::INT32)})});
  v1::UOp variable;
  for (const v1::UOp& uop : model.graph.nodes()) {
    // Its body has slots of its own.
    if (uop.op() == v1::FUNCTION || uop.op() == v1::CALL)
      return Refused(model.inputs[found.states[0].input].name, "is to be state, and the model's graph has functions");
    if (uop.op() == v1::PARAM && uop.buffer().addrspace() == v1::ALU && uop.buffer().slot() == found.batch.slot)
      variable = uop;
  }
  if (variable.src_size() != 1 || model.graph.dialect() == v1::LEGACY_2025)
    return Refused(found.batch.name, "is how many sequences are run, and no PARAM of the model's graph");
  variable.set_src(0, out.Add(v1::STACK, {}));
  const uint32_t batch = out.Add(std::move(variable));
  const uint32_t from = out.Param(pooled.from_slot, v1::INT32, out.Add(v1::STACK, {batch}), "from");

  std::map<const ModelStates::State*, uint32_t> pools;
  std::vector<uint32_t> number;  // of each of the model's nodes, in the graph that is written
  for (const v1::UOp& uop : model.graph.nodes()) {
    const auto state = uop.op() == v1::PARAM && uop.buffer().addrspace() != v1::ALU ? by_slot.find(uop.buffer().slot())
                                                                                    : by_slot.end();
    if (state != by_slot.end()) {
      std::vector<uint32_t> shape = {all};
      for (const int64_t size : state->second->row) shape.push_back(out.Integer(size));
      const uint32_t pool =
          out.Param(uop.buffer().slot(), uop.buffer().dtype(), out.Add(v1::STACK, shape), uop.buffer().name());
      pools[state->second] = pool;
      number.push_back(out.Add(v1::INDEX, {pool, from}));
      continue;
    }
    v1::UOp copy = uop;
    for (uint32_t& source : *copy.mutable_src()) source = number[source];
    if (static_cast<int>(number.size()) + 1 < model.graph.nodes_size()) {
      number.push_back(out.Add(std::move(copy)));
      continue;
    }
    // The root: results that are no state, and then what is stored.
    std::vector<uint32_t> sources;
    for (int i = 0; i < copy.src_size(); ++i) {
      if (!state_results.contains(static_cast<size_t>(i))) sources.push_back(copy.src(i));
    }
    for (const ModelStates::State& each : found.states) {
      std::vector<uint32_t> shape = {all};
      shape.resize(each.row.size() + 1, out.Integer(1));
      const uint32_t gate = out.Add(v1::RESHAPE, {is_written, out.Add(v1::STACK, shape)});
      const uint32_t value = copy.src(static_cast<int>(*model.outputs[each.output].result));
      sources.push_back(out.Add(v1::STORE, {pools[&each], out.Add(v1::INDEX, {value, row_of}), gate}));
    }
    out.Add(v1::TUPLE, sources);
  }
  return pooled;
}

}  // namespace kiln::server
