#include "compiler/rules/transcendental/transcendental.h"

namespace kiln::compiler {
namespace {

template <Formula (*f)(Formula)>
UOp* Unary(const Match& m, Graph& graph) {
  return f({graph, m.root()->src(0)}).uop();
}

UOp* Power(const Match& m, Graph& graph) { return Pow({graph, m.root()->src(0)}, {graph, m.root()->src(1)}).uop(); }

template <DType dtype>
bool Is(const UOp* uop) {
  return uop->dtype() == dtype;
}

}  // namespace

std::vector<Rule> TranscendentalRules(NativeOps native) {
  struct Row {
    absl::string_view name;
    Op op;
    Rule::Body body;
  };
  const Row rows[] = {
      {"exp2(x) -> 2^fraction * 2^integer", Op::EXP2, Unary<Exp2>},
      {"log2(m * 2^e) -> e + log2(m)", Op::LOG2, Unary<Log2>},
      {"sin(x) -> by the quadrant of x", Op::SIN, Unary<Sin>},
      {"pow(x, y) -> +-2^(y * log2(|x|))", Op::POW, Power},
  };
  std::vector<Rule> rules;
  for (const Row& row : rows) {
    if (!IsNative(native, row.op, DType::kFloat32))
      rules.push_back(RULE(row.name, Pattern::Any(row.op).If(Is<DType::kFloat32>), row.body));
    if (!IsNative(native, row.op, DType::kFloat64))
      rules.push_back(RULE(row.name, Pattern::Any(row.op).If(Is<DType::kFloat64>), row.body));
  }
  return rules;
}

}  // namespace kiln::compiler
