#include "compiler/import/program_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::compiler {
namespace {

// How many steps looking for what must be computed may take: far above what any
// program needs, and a fraction of a second.
constexpr uint64_t kMaxVisits = 10'000'000;

// Has a value and no effect, and nothing but its sources decides it.
bool OnlyComputes(const UOp* uop) {
  switch (uop->op()) {
    case Op::INDEX:
    case Op::SHRINK:
    case Op::STACK:
    case Op::BITCAST:
    case Op::CUSTOMI:
    case Op::AFTER: return true;
    default: return IsElementwise(uop->op());
  }
}

}  // namespace

absl::Status ProgramList::Add(UOp* uop) {
  if (uop->op() == Op::PARAM || uop->op() == Op::BUFFER) {
    if (!scopes_.WasListed(uop)) Append(uop, false);
    return absl::OkStatus();
  }
  if (NeedsNoListing(uop)) return absl::OkStatus();
  for (UOp* source : uop->src().first(ValueSources(uop))) KILN_RETURN_IF_ERROR(Provide(source, uop));

  if (uop->op() == Op::END && scopes_.Closes(uop)) {
    uop = InOrder(uop);
    for (size_t i = 1; i < uop->src().size(); ++i) scopes_.Close();
  }
  if (uop->op() == Op::ENDIF && scopes_.innermost() == uop->src(0)) scopes_.Close();
  if (uop->op() == Op::RANGE || uop->op() == Op::IF) scopes_.Open(uop);
  Append(uop, false);
  return absl::OkStatus();
}

absl::Status ProgramList::Provide(UOp* source, const UOp* user) {
  // Sources first; a node is looked at once they are provided.
  std::vector<std::pair<UOp*, bool>> stack = {{source, false}};
  absl::flat_hash_set<UOp*> seen;
  while (!stack.empty()) {
    const auto [uop, ready] = stack.back();
    stack.pop_back();
    if (++visits_ > kMaxVisits) {
      return TooLarge("steps of listing", kMaxVisits, visits_,
                      "too much that is not in the list is computed for what is");
    }
    if (NeedsNoListing(uop)) continue;
    const std::optional<uint32_t> position = scopes_.Find(uop);
    const bool reread = reread_.contains(uop);
    const bool listed = position.has_value() && !reread && !computed_for_user_[*position];
    // What else is not in the list is for the spec to refuse.
    if (listed || (!OnlyComputes(uop) && !reread)) continue;
    if (!ready) {
      if (!seen.insert(uop).second) continue;
      stack.emplace_back(uop, true);
      const auto values = uop->src().first(ValueSources(uop));
      for (auto it = values.rbegin(); it != values.rend(); ++it) stack.emplace_back(*it, false);
    } else if (!position.has_value() || reread || IsStale(uop, *position)) {
      graph_.CopyOrigin(user, uop);
      Append(uop, true);
    }
  }
  return absl::OkStatus();
}

bool ProgramList::IsStale(UOp* uop, uint32_t position) const {
  return std::any_of(uop->src().begin(), uop->src().end(), [&](const UOp* source) {
    const std::optional<uint32_t> newest = scopes_.Find(source);
    return newest.has_value() && *newest > position;
  });
}

void ProgramList::Append(UOp* uop, bool computed_for_user) {
  scopes_.List(uop, static_cast<uint32_t>(list_.size()));
  list_.push_back(uop);
  computed_for_user_.push_back(computed_for_user);
}

// An END of several ranges names the innermost last.
UOp* ProgramList::InOrder(UOp* end) const {
  std::vector<UOp*> src = {end->src(0)};
  const std::vector<UOp*> open = scopes_.open();
  src.insert(src.end(), open.end() - static_cast<std::ptrdiff_t>(end->src().size() - 1), open.end());
  UOp* ordered = graph_.Make(Op::END, src);
  graph_.CopyOrigin(end, ordered);
  return ordered;
}

}  // namespace kiln::compiler
