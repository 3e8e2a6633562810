// What a name in an ONNX graph stands for, and what a node gives.
#ifndef KILN_MODELS_ONNX_VALUE_H_
#define KILN_MODELS_ONNX_VALUE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "client/cpp/graph.h"

namespace kiln::onnx {

// A tensor, a sequence of tensors whose length is known, or an optional without a value.
struct Value {
  Value() = default;
  Value(client::Tensor made) : tensor(made) {}                                  // NOLINT: implicit on purpose
  Value(std::vector<client::Tensor> tensors) : sequence(std::move(tensors)) {}  // NOLINT: implicit on purpose
  static Value Empty() {
    Value value;
    value.empty_optional = true;
    return value;
  }

  bool given() const { return tensor.valid() || sequence || empty_optional; }

  client::Tensor tensor;
  std::optional<std::vector<client::Tensor>> sequence;
  bool empty_optional = false;
  // Whether the file's numbers have fewer bits than a byte. Kiln has no such dtype: they are bytes here, which only
  // those ops take that do not care (OpRow::narrow).
  bool narrow = false;
};

// What DequantizeLinear made float32 of: (values - zero) * scale.
struct Dequantized {
  client::Tensor values;          // int8 or uint8
  client::Tensor scale;           // of shape (), or one for each place along `axis`
  client::Tensor zero;            // invalid where it is 0
  std::optional<int64_t> axis{};  // from 0
};

// In the order of the node's outputs. An op with one writes `return tensor;`.
struct Outputs {
  Outputs(client::Tensor tensor) : values{Value(tensor)} {}            // NOLINT: implicit on purpose
  Outputs(Value value) : values{std::move(value)} {}                   // NOLINT: implicit on purpose
  Outputs(std::vector<Value> several) : values(std::move(several)) {}  // NOLINT: implicit on purpose
  Outputs(const std::vector<client::Tensor>& several) : values(several.begin(), several.end()) {}  // NOLINT

  std::vector<Value> values;
};

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_VALUE_H_
