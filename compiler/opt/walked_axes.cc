#include "compiler/opt/walked_axes.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

// Whether a node only carries its sources on into a linear form.
bool IsLinear(const UOp* uop) {
  return uop->dtype() == kIndexType && (uop->op() == Op::ADD || (uop->op() == Op::MUL && uop->src(1)->IsConst()));
}

// All that `operand` makes of indices: sums of ranges, as whatever is no sum takes them.
// An index of memory comes first. None if a sum is too long to be taken apart.
std::vector<LinearForm> FormsIn(UOp* operand) {
  std::vector<LinearForm> forms;
  for (UOp* uop : Toposort(operand)) {
    if (IsLinear(uop) || uop->op() == Op::RANGE) continue;
    for (UOp* source : uop->src()) {
      if (source->dtype() != kIndexType || source->IsConst()) continue;
      forms.push_back(ToLinear(source));
      for (const LinearForm::Term& term : forms.back().terms) {
        if (IsLinear(term.node)) return {};
      }
      if (uop->op() == Op::INDEX) std::rotate(forms.begin(), forms.end() - 1, forms.end());
    }
  }
  return forms;
}

std::vector<int64_t> CoefficientsOf(const UOp* range, absl::Span<const LinearForm> forms) {
  std::vector<int64_t> coefficients;
  for (const LinearForm& form : forms) {
    coefficients.push_back(0);
    for (const LinearForm::Term& term : form.terms) {
      if (term.node == range) coefficients.back() = term.coefficient;
    }
  }
  return coefficients;
}

// The first that is not 0, or 0.
int64_t Leading(absl::Span<const int64_t> coefficients) {
  for (int64_t coefficient : coefficients) {
    if (coefficient != 0) return coefficient;
  }
  return 0;
}

// The factor that makes `unit` of `coefficients`; 0 if there is none.
int64_t Ratio(absl::Span<const int64_t> coefficients, absl::Span<const int64_t> unit) {
  const int64_t leading = Leading(unit);
  if (leading == 0) return 0;
  const int64_t ratio = Leading(coefficients) / leading;
  for (size_t i = 0; i < unit.size(); ++i) {
    int64_t product = 0;
    if (__builtin_mul_overflow(ratio, unit[i], &product) || product != coefficients[i]) return 0;
  }
  return ratio;
}

}  // namespace

std::vector<WalkedAxis> WalkedAxes(UOp* operand, absl::Span<UOp* const> ranges) {
  struct Walk {
    UOp* range;
    std::vector<int64_t> coefficients;
  };
  const std::vector<LinearForm> forms = FormsIn(operand);
  std::vector<Walk> walks;
  for (UOp* range : ranges) walks.push_back({range, CoefficientsOf(range, forms)});
  // From the nearest in memory outwards. Ranges that come first are outer loops.
  std::reverse(walks.begin(), walks.end());
  std::stable_sort(walks.begin(), walks.end(), [](const Walk& a, const Walk& b) {
    return std::llabs(Leading(a.coefficients)) < std::llabs(Leading(b.coefficients));
  });
  const bool one_load = !forms.empty() && [&] {
    const std::vector<UOp*> order = Toposort(operand);
    return std::count_if(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::LOAD; }) == 1;
  }();

  std::vector<WalkedAxis> axes;
  std::vector<std::vector<int64_t>> units;
  for (const Walk& walk : walks) {
    const int64_t size = walk.range->src(0)->const_int();
    bool joined = false;
    for (size_t i = 0; i < axes.size() && !joined; ++i) {
      const int64_t step = Ratio(walk.coefficients, units[i]);
      if (step < 1 || step > axes[i].extent) continue;  // there would be holes
      axes[i].parts.push_back({walk.range, step});
      axes[i].extent += (size - 1) * step;
      joined = true;
    }
    if (joined) continue;
    axes.push_back({{{walk.range, 1}}, size, one_load ? walk.coefficients[0] : 0});
    units.push_back(walk.coefficients);
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

}  // namespace kiln::compiler
