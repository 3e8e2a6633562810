// reference/tensors.txt: cases one after the other.
//   case NAME
//   input DTYPE MODE size…      the next slot's shape, and how to fill it
//     …                         the graph in the numbered text form; $T is the dtype
//   = DTYPE DIGEST              what the one result's bytes must hash to, by dtype
#include <fstream>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/dtype_names.h"
#include "base/graph/graph_text.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "tests/conformance/cases.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::Shape;

struct InputSpec {
  std::string dtype;  // or $T
  std::string mode;
  Shape shape;
};

struct Template {
  std::string name;
  std::vector<InputSpec> inputs;
  std::string graph;
};

// SplitMix64's finaliser.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Element `i` of input `slot`: see make_input in reference_tensors.py.
uint64_t InputElement(uint64_t i, uint64_t slot, DType dtype, const std::string& mode) {
  const uint64_t h = Mix(i + slot * 1000003);
  int64_t value = 0;
  if (mode.rfind("index", 0) == 0) {
    value = static_cast<int64_t>(h % (std::stoull(mode.substr(5)) + 4)) - 2;
  } else if (mode == "unit") {
    value = h % 97 == 0 ? 2 : h % 2 == 0 ? 1 : -1;
  } else if (dtype == DType::kBool) {
    value = static_cast<int64_t>(h % 2);
  } else if (compiler::IsFloat(dtype)) {
    value = static_cast<int64_t>(h % 17) - 8;
  } else {
    value = static_cast<int64_t>(h);
  }
  if (compiler::IsFloat(dtype)) return compiler::FloatBits(dtype, static_cast<double>(value));
  return compiler::WrapInt(dtype, static_cast<uint64_t>(value));
}

HostTensor MakeInput(uint32_t slot, const InputSpec& spec, DType dtype) {
  HostTensor tensor{dtype, spec.shape, {}};
  const int item = compiler::ItemSize(dtype);
  tensor.bytes.resize(compiler::NumElements(spec.shape) * item);
  for (int64_t i = 0; i < compiler::NumElements(spec.shape); ++i) {
    compiler::StoreElement(dtype, InputElement(i, slot, dtype, spec.mode), tensor.bytes.data() + i * item);
  }
  return tensor;
}

DType ParseName(const std::string& name) { return compiler::FromWire(*ParseDType(name)); }

Case Instantiate(const Template& from, const std::string& dtype, uint64_t digest) {
  Case made;
  made.name = from.name + " of " + dtype;
  auto graph = ParseGraph(absl::StrReplaceAll(from.graph, {{"$T", dtype}}));
  if (!graph.ok()) std::fprintf(stderr, "%s: %s\n", made.name.c_str(), graph.status().ToString().c_str());
  KILN_CHECK(graph.ok());
  made.graph = *std::move(graph);
  for (uint32_t slot = 0; slot < from.inputs.size(); ++slot) {
    const InputSpec& spec = from.inputs[slot];
    made.arguments[slot] = MakeInput(slot, spec, ParseName(spec.dtype == "$T" ? dtype : spec.dtype));
  }
  made.outputs.push_back({from.name, Tolerance(), {}, digest});
  return made;
}

}  // namespace

uint64_t Digest(const std::string& bytes) {
  uint64_t digest = 0xCBF29CE484222325;
  for (unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001B3;
  return digest;
}

std::vector<Case> TensorCases() {
  std::ifstream file("tests/conformance/reference/tensors.txt");
  KILN_CHECK(file.good());
  std::vector<Case> cases;
  Template current;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "case") {
      current = Template();
      std::getline(line >> std::ws, current.name);
    } else if (word == "input") {
      InputSpec spec;
      line >> spec.dtype >> spec.mode;
      for (int64_t size; line >> size;) spec.shape.push_back(size);
      current.inputs.push_back(std::move(spec));
    } else if (word == "=") {
      std::string dtype, digest;
      line >> dtype >> digest;
      cases.push_back(Instantiate(current, dtype, std::stoull(digest, nullptr, 16)));
    } else {
      current.graph += text + "\n";
    }
  }
  return cases;
}

}  // namespace kiln::testing
