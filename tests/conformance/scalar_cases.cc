// reference/scalars.txt, a line each:
//   values DTYPE NAME bits…     operands: u for unary ops and casts, a b c for the rest
//   op OP DTYPE bits…           what OP gives for them
//   cast FROM TO bits…
// Bits are hexadecimal; "nan" is any NaN.
#include <fstream>
#include <map>
#include <sstream>

#include "base/check.h"
#include "base/dtype_names.h"
#include "base/op_names.h"
#include "compiler/ir/build.h"
#include "tests/conformance/cases.h"
#include "tests/support/wire_builder.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::Shape;

using Bits = std::vector<uint64_t>;

struct OpRow {
  v1::Op op;
  DType dtype;
  DType result;
  Bits expected;
};

struct ScalarReference {
  std::map<DType, std::map<std::string, Bits>> values;
  std::vector<OpRow> rows;  // casts too
};

DType ParseName(const std::string& name) {
  const auto dtype = ParseDType(name);
  KILN_CHECK(dtype.has_value());
  return compiler::FromWire(*dtype);
}

Bits ReadBits(std::istringstream& line, DType dtype) {
  Bits bits;
  for (std::string word; line >> word;) {
    const uint64_t pattern = word == "nan" ? Output::kNan : std::stoull(word, nullptr, 16);
    bits.push_back(compiler::IsIntOrBool(dtype) ? compiler::WrapInt(dtype, pattern) : pattern);
  }
  return bits;
}

bool IsComparison(v1::Op op) { return op == v1::CMPLT || op == v1::CMPNE || (op >= v1::CMPGT && op <= v1::CMPEQ); }

const ScalarReference& Reference() {
  static const ScalarReference& reference = *new ScalarReference([] {
    ScalarReference read;
    std::ifstream file("tests/conformance/reference/scalars.txt");
    KILN_CHECK(file.good());
    for (std::string text; std::getline(file, text);) {
      std::istringstream line(text);
      std::string kind, first, second;
      line >> kind >> first >> second;
      if (kind == "values") {
        const DType dtype = ParseName(first);
        read.values[dtype][second] = ReadBits(line, dtype);
      } else if (kind == "op") {
        const v1::Op op = *ParseOp(first);
        const DType result = IsComparison(op) ? DType::kBool : ParseName(second);
        read.rows.push_back({op, ParseName(second), result, ReadBits(line, result)});
      } else {
        KILN_CHECK(kind == "cast");
        read.rows.push_back({v1::CAST, ParseName(first), ParseName(second), ReadBits(line, ParseName(second))});
      }
    }
    return read;
  }());
  return reference;
}

HostTensor TensorOf(DType dtype, const Shape& shape, const Bits& pool, size_t first) {
  HostTensor tensor{dtype, shape, {}};
  const int item = compiler::ItemSize(dtype);
  tensor.bytes.resize(compiler::NumElements(shape) * item);
  for (int64_t i = 0; i < compiler::NumElements(shape); ++i) {
    compiler::StoreElement(dtype, pool[(first + i) % pool.size()], tensor.bytes.data() + i * item);
  }
  return tensor;
}

int OperandCount(v1::Op op) {
  switch (op) {
    case v1::TRUNC:
    case v1::NEG:
    case v1::CAST:
    case v1::RECIPROCAL:
    case v1::EXP2:
    case v1::LOG2:
    case v1::SIN:
    case v1::SQRT: return 1;
    case v1::MULACC: return 3;
    default: return 2;
  }
}

Tolerance ToleranceOfSpelling(v1::Op op, DType dtype) {
  return compiler::IsCoreOp(op) ? ToleranceOf(static_cast<compiler::Op>(op), dtype) : Tolerance();
}

// All of one dtype's rows with `operands` operands as one graph.
Case CaseOf(DType dtype, const std::string& name, const std::vector<const OpRow*>& rows,
            const std::vector<Shape>& shapes, const std::vector<const Bits*>& pools, bool expect) {
  Case made;
  made.name = name;
  WireBuilder builder;
  std::vector<Node> params, results;
  for (uint32_t i = 0; i < shapes.size(); ++i) {
    const std::vector<int64_t> sizes(shapes[i].begin(), shapes[i].end());
    params.push_back(builder.Param(i, dtype, sizes));
    made.arguments[i] = TensorOf(dtype, shapes[i], *pools[i], expect ? 0 : i * 7);
  }
  for (const OpRow* row : rows) {
    if (row->op == v1::CAST) {
      results.push_back(builder.Cast(params[0], row->result));
    } else {
      results.push_back(builder.Add(row->op, absl::MakeConstSpan(params).subspan(0, OperandCount(row->op))));
    }
    std::string op(OpName(row->op));
    if (row->op == v1::CAST) op += " to " + std::string(compiler::Name(row->result));
    made.outputs.push_back({op, ToleranceOfSpelling(row->op, dtype), expect ? row->expected : Bits(), {}});
  }
  builder.Add(v1::TUPLE, results);
  made.graph = builder.graph();
  return made;
}

std::vector<const OpRow*> RowsOf(DType dtype, int least_operands, int max_operands) {
  std::vector<const OpRow*> rows;
  for (const OpRow& row : Reference().rows) {
    const int count = OperandCount(row.op);
    if (row.dtype == dtype && least_operands <= count && count <= max_operands) rows.push_back(&row);
  }
  return rows;
}

}  // namespace

std::vector<Case> ScalarCases() {
  std::vector<Case> cases;
  for (const auto& [dtype, values] : Reference().values) {
    const Bits& u = values.at("u");
    const std::string name(compiler::Name(dtype));
    cases.push_back(
        CaseOf(dtype, "unary " + name, RowsOf(dtype, 1, 1), {Shape{static_cast<int64_t>(u.size())}}, {&u}, true));
    const Shape shape = {static_cast<int64_t>(values.at("a").size())};
    cases.push_back(CaseOf(dtype, "binary " + name, RowsOf(dtype, 2, 3), {shape, shape, shape},
                           {&values.at("a"), &values.at("b"), &values.at("c")}, true));
  }
  return cases;
}

std::vector<Case> BroadcastCases() {
  // Nothing, scalars, ones, odd sizes around a vector's width, stretched axes,
  // missing axes, and more than one thread's share.
  const std::vector<std::vector<Shape>> kShapes = {
      {{}, {}, {}},
      {{0}, {1}, {}},
      {{1}, {1}, {1}},
      {{3}, {}, {3}},
      {{17}, {17}, {1}},
      {{4, 0}, {0}, {4, 1}},
      {{5, 7}, {7}, {5, 1}},
      {{2, 3, 4}, {3, 1}, {2, 1, 4}},
      {{1, 9}, {6, 1}, {1}},
      {{8, 1, 6, 1}, {7, 1, 5}, {5}},
      {{33, 31}, {33, 31}, {}},
      {{3, 40, 70}, {70}, {40, 1}},
  };
  std::vector<Case> cases;
  for (const auto& [dtype, values] : Reference().values) {
    for (const std::vector<Shape>& shapes : kShapes) {
      std::string name = std::string(compiler::Name(dtype)) + " of";
      for (const Shape& shape : shapes) name += " " + compiler::ToString(shape);
      cases.push_back(
          CaseOf(dtype, name, RowsOf(dtype, 1, 3), shapes, {&values.at("a"), &values.at("b"), &values.at("c")}, false));
    }
  }
  return cases;
}

}  // namespace kiln::testing
