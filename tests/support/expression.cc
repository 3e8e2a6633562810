#include "tests/support/expression.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"

namespace kiln::testing {

using namespace compiler;  // NOLINT: a test helper about the IR

Assignment EvaluateAll(UOp* root, const Assignment& assignment) {
  Assignment values;
  for (UOp* uop : Toposort(root)) {
    if (auto given = assignment.find(uop); given != assignment.end()) {
      values[uop] = given->second;
    } else if (uop->op() == Op::CONST) {
      values[uop] = uop->arg_as<ConstArg>().bits;
    } else if (IsElementwise(uop->op())) {
      std::vector<uint64_t> operands;
      for (UOp* source : uop->src()) operands.push_back(values.at(source));
      const DType from = uop->src(uop->op() == Op::WHERE ? 1 : 0)->dtype();
      values[uop] = EvalScalar(uop->op(), from, uop->dtype(), operands);
    } else {
      KILN_CHECK(uop->op() == Op::STACK && uop->src().empty());  // the shape of a PARAM
    }
  }
  return values;
}

ExpressionMaker::ExpressionMaker(Graph& graph, uint64_t seed) : graph_(graph), random_(seed) {
  const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 64, 100, 1 << 20, int64_t{1} << 40};
  for (int i = 0; i < 4; ++i) {
    UOp* bound = Idx(graph_, random_.OneIn(4) ? sizes[random_.Below(14)] : sizes[random_.Below(11)]);
    ranges_.push_back(graph_.Make(Op::RANGE, {bound}, RangeArg{i, AxisType::kLoop}));
  }
  uint32_t slot = 0;
  for (DType dtype : {DType::kBool, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8,
                      DType::kUint16, DType::kUint32, DType::kUint64}) {
    for (int i = 0; i < 2; ++i) {
      params_.push_back(graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, BufferArg{slot++, dtype}));
    }
  }
}

UOp* ExpressionMaker::IndexLeaf() {
  if (random_.OneIn(4)) return Idx(graph_, random_.In(-20, 20));
  if (random_.OneIn(12)) return Leaf(kIndexType);
  return random_.Pick(ranges_);
}

UOp* ExpressionMaker::Leaf(DType dtype) {
  if (random_.OneIn(3)) {
    return ConstInt(graph_, dtype, random_.OneIn(4) ? static_cast<int64_t>(random_.Bits()) : random_.In(-3, 5));
  }
  UOp* param = random_.Pick(params_);
  return Cast(graph_, random_.OneIn(4) ? random_.Pick(ranges_) : param, dtype);
}

UOp* ExpressionMaker::Index(int depth) {
  if (depth <= 0) return IndexLeaf();
  UOp* a = Index(depth - 1 - static_cast<int>(random_.Below(2)));
  const int64_t divisors[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 30, 64, 100, 1 << 20};
  const int64_t divisor = random_.OneIn(16) ? random_.In(-4, 0) : divisors[random_.Below(14)];
  switch (random_.Below(16)) {
    case 0:
    case 1:
    case 2:
    case 3: return graph_.Make(Op::ADD, {a, Index(depth - 1)});
    case 4: return graph_.Make(Op::ADD, {Idx(graph_, random_.In(-40, 40)), a});
    case 5:
    case 6: return graph_.Make(Op::MUL, {a, Idx(graph_, random_.OneIn(3) ? random_.In(-5, 5) : divisor)});
    case 7:
    case 8:
    case 9: return graph_.Make(Op::FLOORDIV, {a, Idx(graph_, divisor)});
    case 10:
    case 11:
    case 12: return graph_.Make(Op::FLOORMOD, {a, Idx(graph_, divisor)});
    case 13: return graph_.Make(Op::WHERE, {random_.OneIn(2) ? Gate(depth - 1) : Bool(depth - 2), a, Index(depth - 1)});
    case 14:
      return graph_.Make(random_.Pick({Op::CDIV, Op::CMOD, Op::MAX, Op::MUL, Op::FLOORDIV, Op::FLOORMOD}),
                         {a, Index(depth - 1)});
    default:
      return graph_.Make(random_.Pick({Op::AND, Op::SHR, Op::SHL, Op::XOR, Op::OR}),
                         {a, Idx(graph_, random_.In(0, 66))});
  }
}

UOp* ExpressionMaker::Bool(int depth) {
  if (depth <= 0)
    return random_.OneIn(6) ? ConstInt(graph_, DType::kBool, random_.OneIn(2)) : params_[random_.Below(2)];
  switch (random_.Below(9)) {
    case 0: return Gate(depth);
    case 6: return Not(graph_, Gate(depth));
    case 7: {
      // Flags as numbers.
      const DType dtype = random_.Pick({DType::kInt8, DType::kInt32, DType::kInt64, DType::kUint8});
      UOp* flag = Cast(graph_, Bool(depth - 1), dtype);
      UOp* number = ConstInt(graph_, dtype, random_.In(0, 2));
      const Op op = random_.Pick({Op::CMPLT, Op::CMPNE});
      return random_.OneIn(2) ? graph_.Make(op, {flag, number}) : graph_.Make(op, {number, flag});
    }
    case 1: return graph_.Make(Op::CMPLT, {Index(depth - 1), Index(depth - 2)});
    case 2: return graph_.Make(Op::CMPLT, {Index(depth - 1), Idx(graph_, random_.In(-30, 100))});
    case 3: return graph_.Make(Op::CMPNE, {Index(depth - 1), Idx(graph_, random_.In(-3, 30))});
    case 4: return graph_.Make(Op::CMPNE, {Bool(depth - 1), ConstInt(graph_, DType::kBool, random_.OneIn(2))});
    default:
      return graph_.Make(random_.Pick({Op::AND, Op::OR, Op::XOR, Op::MUL, Op::ADD, Op::MAX}),
                         {Bool(depth - 1), Bool(depth - 1)});
  }
}

// A choice, perhaps twice by the same condition or between the same values.
UOp* ExpressionMaker::Choice(UOp* condition, UOp* a, UOp* b) {
  UOp* other = random_.OneIn(2) ? condition : Bool(1);
  switch (random_.Below(6)) {
    case 0: a = Where(graph_, other, a, b); break;
    case 1: b = Where(graph_, other, a, b); break;
    case 2: a = Where(graph_, condition, a, random_.OneIn(2) ? b : a); break;
    default: break;
  }
  return Where(graph_, condition, a, b);
}

// What pads and masks come to: an index between limits, and perhaps something
// that these limits decide.
UOp* ExpressionMaker::Gate(int depth) {
  UOp* index = Index(std::min(depth - 2, 2));
  UOp* gate = nullptr;
  for (uint64_t count = random_.Below(3) + 1; count > 0; --count) {
    UOp* compared = random_.OneIn(2) ? index : graph_.Make(Op::ADD, {index, Idx(graph_, random_.In(-9, 9))});
    if (random_.OneIn(4)) compared = graph_.Make(Op::FLOORDIV, {compared, Idx(graph_, random_.In(2, 9))});
    UOp* limit = Idx(graph_, random_.In(-10, 40));
    UOp* condition = graph_.Make(random_.OneIn(4) ? Op::CMPNE : Op::CMPLT, {compared, limit});
    if (random_.OneIn(2)) condition = Not(graph_, condition);
    gate = gate == nullptr ? condition : And(graph_, gate, condition);
  }
  return gate;
}

// What an arange that is made digit by digit adds up.
UOp* ExpressionMaker::Weight(DType dtype) {
  UOp* shifted = graph_.Make(Op::FLOORDIV, {random_.Pick(ranges_), Idx(graph_, int64_t{1} << random_.In(0, 3))});
  UOp* digit = graph_.Make(Op::FLOORMOD, {shifted, Idx(graph_, 2)});
  return Where(graph_, graph_.Make(Op::CMPLT, {Idx(graph_, 0), digit}), ConstInt(graph_, dtype, random_.In(-3, 64)),
               ConstInt(graph_, dtype, 0));
}

UOp* ExpressionMaker::Of(DType dtype, int depth) {
  if (depth <= 0) return Leaf(dtype);
  UOp* a = Of(dtype, depth - 1);
  UOp* b = random_.OneIn(3) ? Leaf(dtype) : Of(dtype, depth - 1 - static_cast<int>(random_.Below(2)));
  switch (random_.Below(8)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const Op op = random_.Pick({Op::ADD, Op::MUL, Op::MAX, Op::FLOORDIV, Op::FLOORMOD, Op::CDIV, Op::CMOD, Op::XOR,
                                  Op::OR, Op::AND, Op::SHL, Op::SHR});
      return random_.OneIn(3) ? graph_.Make(op, {b, a}) : graph_.Make(op, {a, b});
    }
    case 4:
      if (random_.OneIn(4)) return Weight(dtype);
      return graph_.Make(Op::WHERE, {graph_.Make(random_.Pick({Op::CMPLT, Op::CMPNE}), {a, b}), a, b});
    case 5: {
      const DType other = random_.Pick(
          {DType::kBool, DType::kInt8, DType::kUint8, DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64});
      return Cast(graph_, Of(other, depth - 1), dtype);
    }
    case 6: return Choice(Of(DType::kBool, depth - 1), a, b);
    default:
      if (random_.OneIn(2)) return graph_.Make(Op::TRUNC, {a});
      a = graph_.Make(Op::MAX, {a, ConstInt(graph_, dtype, random_.In(-3, 5))});
      return graph_.Make(Op::MAX, {a, ConstInt(graph_, dtype, random_.In(-3, 5))});
  }
}

uint64_t ExpressionMaker::ValueFor(const UOp* variable) {
  const Bounds& bounds = variable->bounds();
  switch (random_.Below(4)) {
    case 0: return static_cast<uint64_t>(bounds.min);
    case 1: return static_cast<uint64_t>(bounds.max);
    default: {
      const auto size = static_cast<unsigned __int128>(bounds.max - bounds.min) + 1;
      const auto step = static_cast<unsigned __int128>(random_.OneIn(2) ? random_.Bits() : random_.Below(10));
      return static_cast<uint64_t>(bounds.min + static_cast<__int128>(step % size));
    }
  }
}

Assignment ExpressionMaker::Assign() {
  Assignment assignment;
  for (UOp* range : ranges_) assignment[range] = ValueFor(range);
  for (UOp* param : params_) assignment[param] = ValueFor(param);
  return assignment;
}

}  // namespace kiln::testing
