#include "compiler/opt/float8_value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/interp/scalar.h"

namespace kiln::compiler {
namespace {

// Larger expressions are not evaluated 256 times.
constexpr size_t kMaxNodes = 64;
constexpr uint64_t kPatterns = 256;

// What `uop` is computed by, sources first, from numbers and one LOAD; false if from more, or by more than so many
// levels of nodes.
bool Collect(UOp* uop, size_t levels, std::vector<UOp*>& order, UOp*& load) {
  if (uop->op() == Op::LOAD) {
    if (load == nullptr) load = uop;
    return load == uop;
  }
  if (std::find(order.begin(), order.end(), uop) != order.end()) return true;
  if (levels == 0) return false;
  if (!IsElementwise(uop->op()) && uop->op() != Op::BITCAST && uop->op() != Op::CONST) return false;
  for (UOp* source : uop->src()) {
    if (!Collect(source, levels - 1, order, load)) return false;
  }
  order.push_back(uop);
  return order.size() <= kMaxNodes;
}

using Values = std::array<uint64_t, kPatterns>;

// Of the last of `order`, for each pattern that `load` may read.
Values Evaluate(const std::vector<UOp*>& order, UOp* load) {
  Values values;
  absl::flat_hash_map<UOp*, uint64_t> known;
  for (uint64_t pattern = 0; pattern < kPatterns; ++pattern) {
    known[load] = pattern;
    for (UOp* uop : order) {
      if (uop->op() == Op::CONST) {
        known[uop] = uop->arg_as<ConstArg>().bits;
        continue;
      }
      std::vector<uint64_t> operands;
      for (UOp* source : uop->src()) operands.push_back(known.at(source));
      const DType from = uop->src(uop->op() == Op::WHERE ? 1 : 0)->dtype();
      known[uop] = EvalScalar(uop->op(), from, uop->dtype(), operands);
    }
    values[pattern] = known.at(order.back());
  }
  return values;
}

bool AreOf(DType format, const Values& values) {
  for (uint64_t pattern = 0; pattern < kPatterns; ++pattern) {
    const uint64_t want = EvalScalar(Op::CAST, format, DType::kFloat32, {pattern});
    const bool nan = std::isnan(FloatValue(DType::kFloat32, want));
    if (nan ? !std::isnan(FloatValue(DType::kFloat32, values[pattern])) : values[pattern] != want) return false;
  }
  return true;
}

}  // namespace

std::optional<Float8Value> Float8ValueOf(UOp* uop) {
  UOp* load = nullptr;
  std::vector<UOp*> order;
  if (uop->dtype() != DType::kFloat32 || !Collect(uop, kMaxNodes, order, load) || load == nullptr || order.empty() ||
      load->dtype() != DType::kUint8)
    return std::nullopt;
  const Values values = Evaluate(order, load);
  for (const DType format : {DType::kFloat8E4m3, DType::kFloat8E5m2, DType::kFloat8E4m3Fnuz, DType::kFloat8E5m2Fnuz}) {
    if (AreOf(format, values)) return Float8Value{load, format};
  }
  return std::nullopt;
}

}  // namespace kiln::compiler
