#include "compiler/schedule/memory/overwritten.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

bool IsLoop(const UOp* uop) { return uop->op() == Op::RANGE || uop->op() == Op::SPECIAL; }

// Whether the iterations of all loops that `index` is a sum of go through 0 … elements - 1, as
// the digits of a number do.
bool CountsThrough(UOp* index, int64_t elements) {
  LinearForm form = ToLinear(index);
  if (form.constant != 0) return false;
  std::sort(form.terms.begin(), form.terms.end(),
            [](const LinearForm::Term& a, const LinearForm::Term& b) { return a.coefficient < b.coefficient; });
  int64_t reached = 1;
  for (const LinearForm::Term& term : form.terms) {
    if (!IsLoop(term.node) || term.coefficient != reached) return false;
    const int64_t iterations = term.node->src(0)->const_int();
    if (iterations > elements / reached) return false;
    reached *= iterations;
  }
  return reached == elements;
}

}  // namespace

bool OverwritesSlot(UOp* body, uint32_t slot) {
  if (body->op() != Op::SINK) return false;
  const std::vector<UOp*> order = Toposort(body);
  const auto is_storage = [&](const UOp* uop) {
    return uop->op() == Op::PARAM && !uop->IsVariable() && uop->arg_as<BufferArg>().slot == slot;
  };
  bool stored = false;
  for (UOp* uop : order) {
    if (uop->IsInvalid() || uop->op() == Op::IF) return false;
    // Each loop has iterations, and a number of them.
    if (IsLoop(uop) && !(uop->src(0)->IsConst() && uop->src(0)->const_int() > 0)) return false;
    const bool of_storage = !uop->src().empty() && is_storage(uop->src(0));
    const bool names_storage = std::any_of(uop->src().begin(), uop->src().end(), is_storage);
    // Its places may only be stored to.
    if (names_storage && !(uop->op() == Op::INDEX && of_storage && uop->src().size() == 2)) return false;
    const auto is_place = [&](const UOp* source) {
      return source->op() == Op::INDEX && !source->src().empty() && is_storage(source->src(0));
    };
    if (!std::any_of(uop->src().begin(), uop->src().end(), is_place)) continue;
    if (uop->op() != Op::STORE || !is_place(uop->src(0)) || is_place(uop->src(1))) return false;
    const UOp* storage = uop->src(0)->src(0);
    stored |= uop->src().size() == 2 && storage->shape().size() == 1 && storage->shape()[0].IsConst() &&
              CountsThrough(uop->src(0)->src(1), int64_t{storage->shape()[0]});
  }
  return stored;
}

std::vector<bool> Overwritten(absl::Span<UOp* const> parameters, const UOp* calls) {
  std::vector<bool> overwritten(parameters.size(), false);
  std::map<std::pair<UOp*, uint32_t>, bool> known;  // of equal kernels
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const UOp* call : calls->src()) {
      const absl::Span<UOp* const> arguments = call->src().subspan(1);
      const auto count = std::count(arguments.begin(), arguments.end(), parameters[i]);
      if (count == 0) continue;
      const auto slot =
          static_cast<uint32_t>(std::find(arguments.begin(), arguments.end(), parameters[i]) - arguments.begin());
      const auto [found, is_new] = known.try_emplace({call->src(0), slot}, false);
      if (is_new) found->second = OverwritesSlot(call->src(0), slot);
      overwritten[i] = count == 1 && found->second;
      break;
    }
  }
  return overwritten;
}

}  // namespace kiln::compiler
