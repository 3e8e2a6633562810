// Small models of quantized tensors for tests: written here, imported, and run by the interpreter.
#ifndef KILN_TESTS_ONNX_QUANTIZED_MODELS_H_
#define KILN_TESTS_ONNX_QUANTIZED_MODELS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "models/onnx/model.h"
#include "onnx/onnx.pb.h"

namespace kiln::testing {

using ::onnx::TensorProto;

// Integers of an element type of ONNX; without dims a scalar.
struct Whole {
  TensorProto::DataType type;
  std::vector<int64_t> dims;
  std::vector<int64_t> values;

  int64_t at(size_t i) const { return values[i]; }
};
// Fixed numbers from the whole range of an 8-bit type.
Whole Drawn(TensorProto::DataType type, std::vector<int64_t> dims, uint32_t seed);

class QuantizedModel {
 public:
  explicit QuantizedModel(int64_t opset = 21);

  // What each call gives, in this order, and what the file holds.
  void Input(const std::string& name, const Whole& value);
  void Constant(const std::string& name, const Whole& value);
  void Floats(const std::string& name, const std::vector<float>& values, bool scalar = false);
  // Ints and Int add attributes to the last node.
  void Node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output = "y") {
    Node(op, inputs, std::vector<std::string>{output});
  }
  void Node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);
  void Ints(const std::string& name, const std::vector<int64_t>& values);
  void Int(const std::string& name, int64_t value);

  // Imports it and runs it; failures are the test's.
  template <typename T>
  std::vector<T> Run(const onnx::ImportOptions& options = {}) {
    const std::string bytes = RunBytes(options);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // What Run imported.
  const onnx::Model& model() const { return model_; }
  // Whether all REDUCEs that add up products add up those of two 8-bit tensors, which are widened and nothing else, and
  // there is one.
  bool SumsBytes() const;

 private:
  std::string RunBytes(const onnx::ImportOptions& options);

  ::onnx::ModelProto proto_;
  std::vector<Whole> inputs_;
  onnx::Model model_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_ONNX_QUANTIZED_MODELS_H_
