// Sequences of tensors and optionals, which are gone once a model is imported: their lengths are known.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

using Tensors = std::vector<Tensor>;

absl::StatusOr<Tensors> SequenceIn(Node& node, size_t input) {
  if (!node.Has(input) || !node.At(input).sequence) return node.Bad(absl::StrCat("input ", input, " is no sequence"));
  return *node.At(input).sequence;
}

absl::StatusOr<size_t> Position(Node& node, size_t input, size_t length) {
  KILN_ASSIGN_OR_RETURN(const int64_t at, node.Integer(input));
  const auto most = static_cast<int64_t>(length);
  if (at < -most || at >= most) return node.Bad(absl::StrCat("there is no tensor ", at, " in a sequence of ", length));
  return static_cast<size_t>(at < 0 ? at + most : at);
}

Result SequenceAt(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Tensors sequence, SequenceIn(node, 0));
  KILN_ASSIGN_OR_RETURN(const size_t at, Position(node, 1, sequence.size()));
  return sequence[at];
}

Result SequenceInsert(Node& node) {
  KILN_ASSIGN_OR_RETURN(Tensors sequence, SequenceIn(node, 0));
  size_t at = sequence.size();
  if (node.Has(2)) {
    KILN_ASSIGN_OR_RETURN(const int64_t wanted, node.Integer(2));
    const auto length = static_cast<int64_t>(sequence.size());
    if (wanted < -length || wanted > length) return node.Bad("the position is outside of the sequence");
    at = static_cast<size_t>(wanted < 0 ? wanted + length : wanted);
  }
  if (!node.In(1).valid()) return node.Bad("what is inserted is no tensor");
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(at), node.In(1));
  return Value(std::move(sequence));
}

Result SequenceErase(Node& node) {
  KILN_ASSIGN_OR_RETURN(Tensors sequence, SequenceIn(node, 0));
  if (sequence.empty()) return node.Bad("of an empty sequence");
  size_t at = sequence.size() - 1;
  if (node.Has(1)) {
    KILN_ASSIGN_OR_RETURN(at, Position(node, 1, sequence.size()));
  }
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(at));
  return Value(std::move(sequence));
}

Result SequenceLength(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Tensors sequence, SequenceIn(node, 0));
  return node.graph().Constant(static_cast<int64_t>(sequence.size()), v1::INT64);
}

// Without sizes, every element on its own; keepdims then says whether it keeps the axis.
Result SplitToSequence(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), x.rank()));
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
  std::vector<int64_t> sizes;
  if (node.Has(1)) {
    KILN_ASSIGN_OR_RETURN(sizes, node.Integers(1));
    if (node.In(1).rank() == 0) {
      const int64_t each = sizes.empty() ? 0 : sizes[0];
      if (each < 1) return node.Bad("parts of no size");
      sizes.clear();
      for (int64_t at = 0; at < size; at += each) sizes.push_back(std::min(each, size - at));
    }
  } else {
    KILN_RETURN_IF_ERROR(node.CheckTurns(size));
    sizes.assign(static_cast<size_t>(size), 1);
  }
  Tensors parts;
  int64_t begin = 0;
  for (const int64_t part : sizes) {
    if (part < 0 || part > size - begin) return node.Bad("the parts are not the axis");
    const Tensor piece = Part(x, axis, begin, begin + part);
    parts.push_back(!node.Has(1) && node.Int("keepdims", 1) == 0 ? Squeeze(piece, axis) : piece);
    begin += part;
  }
  return Value(std::move(parts));
}

Result ConcatFromSequence(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Tensors sequence, SequenceIn(node, 0));
  if (sequence.empty()) return node.Bad("of an empty sequence");
  if (node.Int("new_axis") != 0) {
    KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), sequence[0].rank() + 1));
    return Stack(sequence, axis);
  }
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), sequence[0].rank()));
  return Joined(sequence, axis);
}

// The body once for each tensor of the first sequence, other sequences beside it.
Result SequenceMap(Node& node) {
  KILN_ASSIGN_OR_RETURN(const auto* body, node.GraphOf("body"));
  KILN_ASSIGN_OR_RETURN(const Tensors first, SequenceIn(node, 0));
  std::vector<Tensors> made(static_cast<size_t>(body->output_size()));
  for (size_t turn = 0; turn < first.size(); ++turn) {
    KILN_RETURN_IF_ERROR(node.CheckTurns(static_cast<int64_t>(turn) + 1));
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs(); ++i) {
      const Value& value = node.At(i);
      if (value.sequence && value.sequence->size() != first.size())
        return node.Bad("the sequences are not equally long");
      inputs.push_back(value.sequence ? Value((*value.sequence)[turn]) : value);
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<Value> values, node.Run(*body, std::move(inputs)));
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].tensor.valid()) return node.Bad("the body gives no tensor");
      made[i].push_back(values[i].tensor);
    }
  }
  std::vector<Value> outputs;
  for (Tensors& sequence : made) outputs.emplace_back(std::move(sequence));
  return Outputs(std::move(outputs));
}

constexpr OpRow kRows[] = {
    {"SequenceEmpty", 11, [](Node&) -> Result { return Value(Tensors()); }, 0, 0},
    {"SequenceConstruct", 11, [](Node& node) -> Result { return Value(node.Tensors()); }, 1, kAny},
    {"SequenceAt", 11, SequenceAt, 2, 2, kStandard, true},
    {"SequenceInsert", 11, SequenceInsert, 2, 3, kStandard, true},
    {"SequenceErase", 11, SequenceErase, 1, 2, kStandard, true},
    {"SequenceLength", 11, SequenceLength, 1, 1, kStandard, true},
    {"SplitToSequence", 11, SplitToSequence, 1, 2},
    {"ConcatFromSequence", 11, ConcatFromSequence, 1, 1, kStandard, true},
    {"SequenceMap", 17, SequenceMap, 1, kAny, kStandard, true},
    {"Optional", 15, [](Node& node) -> Result { return node.Has(0) ? node.At(0) : Value::Empty(); }, 0, 1, kStandard,
     true},
    {"OptionalHasElement", 15,
     [](Node& node) -> Result { return node.graph().Constant(node.Has(0) && !node.At(0).empty_optional, v1::BOOL); }, 0,
     1, kStandard, true},
    {"OptionalGetElement", 15,
     [](Node& node) -> Result {
       if (node.At(0).empty_optional) return node.Bad("of an optional that is empty");
       return node.At(0);
     },
     1, 1, kStandard, true},
};

}  // namespace

OpRows SequenceOps() { return kRows; }

}  // namespace kiln::onnx
