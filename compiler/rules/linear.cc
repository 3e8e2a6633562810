#include "compiler/rules/linear.h"

#include <algorithm>

#include "base/check.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

// A sum of more parts than this keeps some of them whole, as terms: a node that
// doubles itself often has more parts than anyone could list.
constexpr int kMaxParts = 512;

constexpr __int128 kFar = __int128{1} << 100;

int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

Bounds LinearForm::Range() const {
  Bounds range{constant, constant, true};
  for (const Term& term : terms) {
    const __int128 a = term.node->bounds().min * term.coefficient;
    const __int128 b = term.node->bounds().max * term.coefficient;
    range.min += std::min(a, b);
    range.max += std::max(a, b);
    // Far beyond any index: more terms could only wrap what is too wide already.
    if (range.min < -kFar || range.max > kFar) return {-kFar, kFar, true};
  }
  return range;
}

LinearForm ToLinear(UOp* uop) {
  KILN_CHECK(uop->dtype() == kIndexType);
  LinearForm form;
  std::vector<LinearForm::Term> stack = {{uop, 1}};
  for (int parts = 0; !stack.empty(); ++parts) {
    const bool whole = parts > kMaxParts;
    const LinearForm::Term top = stack.back();
    stack.pop_back();
    UOp* node = top.node;
    if (node->IsConst()) {
      form.constant = WrapAdd(form.constant, WrapMul(top.coefficient, node->const_int()));
    } else if (!whole && node->op() == Op::ADD) {
      stack.push_back({node->src(1), top.coefficient});
      stack.push_back({node->src(0), top.coefficient});
    } else if (!whole && node->op() == Op::MUL && node->src(1)->IsConst()) {
      stack.push_back({node->src(0), WrapMul(top.coefficient, node->src(1)->const_int())});
    } else {
      auto same =
          std::find_if(form.terms.begin(), form.terms.end(), [node](const auto& term) { return term.node == node; });
      if (same == form.terms.end()) {
        form.terms.push_back({node, top.coefficient});
      } else {
        same->coefficient = WrapAdd(same->coefficient, top.coefficient);
      }
    }
  }
  std::erase_if(form.terms, [](const auto& term) { return term.coefficient == 0; });
  return form;
}

UOp* FromLinear(Graph& graph, const LinearForm& form) {
  // In order of creation, so that equal sums are equal nodes.
  std::vector<LinearForm::Term> terms = form.terms;
  std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.node->id() < b.node->id(); });
  UOp* sum = nullptr;
  for (const auto& [node, coefficient] : terms) {
    UOp* term = coefficient == 1 ? node : Mul(graph, node, Idx(graph, coefficient));
    sum = sum == nullptr ? term : Add(graph, sum, term);
  }
  if (sum == nullptr) return Idx(graph, form.constant);
  return form.constant == 0 ? sum : Add(graph, sum, Idx(graph, form.constant));
}

UOp* AtMost(Graph& graph, UOp* index, UOp* max) {
  UOp* minus = Idx(graph, -1);
  return Mul(graph, graph.Make(Op::MAX, {Mul(graph, index, minus), Mul(graph, max, minus)}), minus);
}

UOp* AtMost(Graph& graph, UOp* index, int64_t max) {
  UOp* minus = Idx(graph, -1);
  return Mul(graph, graph.Make(Op::MAX, {Mul(graph, index, minus), Idx(graph, -max)}), minus);
}

}  // namespace kiln::compiler
