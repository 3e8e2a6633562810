#include "compiler/structure/program_scopes.h"

#include <algorithm>

#include "base/check.h"

namespace kiln::compiler {

void ProgramScopes::Close() {
  KILN_CHECK(!scopes_.empty());
  for (const UOp* uop : scopes_.back().listed) listed_[uop].pop_back();
  scopes_.pop_back();
}

std::vector<UOp*> ProgramScopes::open() const {
  std::vector<UOp*> openers;
  for (const Scope& scope : scopes_) openers.push_back(scope.opener);
  return openers;
}

bool ProgramScopes::Closes(const UOp* end) const {
  const auto ranges = end->src().subspan(1);
  if (ranges.empty() || ranges.size() > scopes_.size()) return false;
  std::vector<UOp*> wanted(ranges.begin(), ranges.end());
  std::vector<UOp*> have;
  for (size_t i = scopes_.size() - ranges.size(); i < scopes_.size(); ++i) have.push_back(scopes_[i].opener);
  return std::is_permutation(wanted.begin(), wanted.end(), have.begin());
}

void ProgramScopes::List(const UOp* uop, uint32_t position) {
  listed_[uop].push_back(position);
  if (!scopes_.empty()) scopes_.back().listed.push_back(uop);
}

std::optional<uint32_t> ProgramScopes::Find(const UOp* uop) const {
  const auto found = listed_.find(uop);
  if (found == listed_.end() || found->second.empty()) return std::nullopt;
  return found->second.back();
}

size_t ValueSources(const UOp* uop) {
  switch (uop->op()) {
    case Op::BARRIER:
    case Op::GROUP:
    case Op::SINK:
    case Op::END: return 0;
    case Op::ENDIF: return 0;
    case Op::AFTER:
    case Op::IF: return 1;
    default: return uop->src().size();
  }
}

bool NeedsNoListing(const UOp* uop) {
  switch (uop->op()) {
    case Op::CONST:
    case Op::PARAM:
    case Op::BUFFER:
    case Op::GROUP:
    case Op::SINK: return true;
    case Op::STACK:  // a shape
      return IsWeak(uop->dtype()) &&
             std::all_of(uop->src().begin(), uop->src().end(), [](const UOp* size) { return size->op() == Op::CONST; });
    default: return false;
  }
}

bool IsMemory(const UOp* uop) {
  return uop->addrspace() == AddrSpace::kGlobal || uop->addrspace() == AddrSpace::kLocal ||
         uop->addrspace() == AddrSpace::kReg;
}

bool MayLeaveItsSource(const UOp* uop) {
  const UOp* place = uop->src(1);
  if (place->op() == Op::STACK || IsWeak(place->dtype())) return false;
  return !place->IsConst() || place->const_int() < 0 ||
         place->const_int() > uop->src(0)->shape()[0].min() - uop->shape()[0].max();
}

bool IsBareStorage(const UOp* uop) {
  while (uop->op() == Op::AFTER) uop = uop->src(0);
  return uop->op() == Op::PARAM || uop->op() == Op::BUFFER;
}

UOp* StorageUnder(UOp* uop) {
  while (uop->op() == Op::INDEX || uop->op() == Op::SHRINK || uop->op() == Op::AFTER) uop = uop->src(0);
  return uop->op() == Op::PARAM || uop->op() == Op::BUFFER ? uop : nullptr;
}

}  // namespace kiln::compiler
