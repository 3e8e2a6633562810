#include "compiler/rewrite/pattern.h"

#include "base/check.h"
#include "base/float_bits.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

bool IsNumber(const UOp* uop, int value) {
  if (!uop->IsConst()) return false;
  const uint64_t bits = uop->arg_as<ConstArg>().bits;
  if (uop->dtype() == DType::kBool) return value >= 0 && bits == static_cast<uint64_t>(value);
  if (IsInt(uop->dtype())) return bits == WrapInt(uop->dtype(), static_cast<uint64_t>(value));
  return bits == FloatToBits(ToWire(uop->dtype()), value);
}

template <int value>
bool IsTheNumber(const UOp* uop) {
  return IsNumber(uop, value);
}

bool IsPlainConst(const UOp* uop) { return uop->IsConst(); }

}  // namespace

Pattern Pattern::Of(Op op, std::initializer_list<Pattern> src) {
  Pattern pattern;
  pattern.has_op_ = true;
  pattern.op_ = op;
  pattern.fixed_sources_ = true;
  pattern.src_.assign(src.begin(), src.end());
  return pattern;
}

Pattern Pattern::Any(Op op) {
  Pattern pattern;
  pattern.has_op_ = true;
  pattern.op_ = op;
  return pattern;
}

Pattern Pattern::Constant() { return Any(Op::CONST).If(IsPlainConst); }

Pattern Pattern::As(Var var) const {
  Pattern pattern = *this;
  pattern.var_ = var.index;
  return pattern;
}

Pattern Pattern::If(Predicate predicate) const {
  KILN_CHECK(predicate_ == nullptr);
  Pattern pattern = *this;
  pattern.predicate_ = predicate;
  return pattern;
}

bool Pattern::Matches(UOp* uop, Match& match) const {
  if (has_op_ && uop->op() != op_) return false;
  if (predicate_ != nullptr && !predicate_(uop)) return false;
  if (var_ >= 0) {
    UOp*& bound = match.bound_[var_];
    if (bound != nullptr && bound != uop) return false;
    bound = uop;
  }
  return !fixed_sources_ || MatchSources(uop, match);
}

bool Pattern::MatchSources(UOp* uop, Match& match) const {
  if (uop->src().size() != src_.size()) return false;
  const Match before = match;
  bool matched = true;
  for (size_t i = 0; matched && i < src_.size(); ++i) matched = src_[i].Matches(uop->src(i), match);
  if (matched || src_.size() != 2 || !Is(uop->op(), kCommutative)) return matched;
  match = before;
  return src_[0].Matches(uop->src(1), match) && src_[1].Matches(uop->src(0), match);
}

Pattern Number(int value) {
  KILN_CHECK(value >= -1 && value <= 1);
  const Pattern::Predicate predicate = value == 0 ? IsTheNumber<0> : value == 1 ? IsTheNumber<1> : IsTheNumber<-1>;
  return Pattern::Any(Op::CONST).If(predicate);
}

RuleSet::RuleSet(std::vector<Rule> rules) : rules_(std::move(rules)) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    KILN_CHECK(rules_[i].pattern.has_op());
    by_op_[static_cast<uint8_t>(rules_[i].pattern.op())].push_back(static_cast<uint16_t>(i));
  }
}

RuleSet RuleSet::Join(std::initializer_list<const RuleSet*> sets) {
  std::vector<Rule> all;
  for (const RuleSet* set : sets) all.insert(all.end(), set->rules_.begin(), set->rules_.end());
  return RuleSet(std::move(all));
}

UOp* RuleSet::Apply(UOp* uop, Graph& graph, const Rule** applied) const {
  for (uint16_t i : by_op_[static_cast<uint8_t>(uop->op())]) {
    Match match;
    if (!rules_[i].pattern.Matches(uop, match)) continue;
    match.root_ = uop;
    UOp* replacement = rules_[i].body(match, graph);
    if (replacement == nullptr || replacement == uop || replacement->shape() != uop->shape()) continue;
    if (applied != nullptr) *applied = &rules_[i];
    return replacement;
  }
  return nullptr;
}

}  // namespace kiln::compiler
