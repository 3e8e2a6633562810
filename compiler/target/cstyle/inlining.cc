#include "compiler/target/cstyle/inlining.h"

#include <vector>

#include "compiler/program/list_rewrite.h"

namespace kiln::compiler {
namespace {

// Pointers, vectors put together and their lanes: expressions wherever they are used.
bool IsGlue(const UOp* uop) {
  switch (uop->op()) {
    case Op::INDEX:
    case Op::SHRINK:
    case Op::AFTER:
    case Op::STACK:
    case Op::CONST:
    case Op::PARAM:
    case Op::BUFFER: return true;
    default: return false;
  }
}

bool IsRegisterLoad(const UOp* uop) {
  if (uop->op() != Op::LOAD || uop->src().size() > 1) return false;
  const UOp* storage = PointedStorage(uop->src(0));
  return storage != nullptr && storage->addrspace() == AddrSpace::kReg;
}

}  // namespace

absl::Span<UOp* const> PrintedSources(const UOp* uop) {
  switch (uop->op()) {
    case Op::PARAM:
    case Op::BUFFER:
    case Op::SPECIAL:
    case Op::BARRIER:
    case Op::GROUP:
    case Op::SINK:
    case Op::END:
    case Op::ENDIF: return {};
    case Op::AFTER:
    case Op::IF: return uop->src().first(1);
    case Op::SHRINK: return uop->src().first(2);
    default: return uop->src();
  }
}

bool IsStatement(const UOp* uop) {
  switch (uop->op()) {
    case Op::STORE:
    case Op::ATOMICADD:
    case Op::CUSTOM:
    case Op::RANGE:
    case Op::END:
    case Op::IF:
    case Op::ENDIF:
    case Op::BARRIER:
    case Op::SPECIAL: return true;
    default: return false;
  }
}

Inlining::Inlining(const UOp* linear) {
  absl::flat_hash_set<const UOp*> seen;
  for (const UOp* uop : linear->src()) {
    if (!seen.insert(uop).second && !IsStatement(uop) && !IsGlue(uop)) relisted_.insert(uop);
  }
  CountUses(linear);
  FindPassing(linear);
  InlineRegisters(linear);
}

int Inlining::Uses(const UOp* uop) const {
  auto found = uses_.find(uop);
  return found == uses_.end() ? 0 : found->second;
}

bool Inlining::IsStable(const UOp* uop) const {
  const bool named = IsElementwise(uop->op()) || uop->op() == Op::LOAD || uop->op() == Op::RANGE;
  return named && !IsInlined(uop) && !IsPassing(uop) && !IsRelisted(uop);
}

// From the last instruction to the first: what nobody uses, uses nothing.
void Inlining::CountUses(const UOp* linear) {
  const auto list = linear->src();
  for (size_t i = list.size(); i-- > 0;) {
    const UOp* uop = list[i];
    const int times = IsStatement(uop) ? 1 : IsGlue(uop) ? Uses(uop) : Uses(uop) > 0 ? 1 : 0;
    if (times == 0) continue;
    for (const UOp* source : PrintedSources(uop)) uses_[source] += times;
  }
}

void Inlining::FindPassing(const UOp* linear) {
  for (const UOp* uop : linear->src()) {
    bool passing = false;
    for (const UOp* source : PrintedSources(uop))
      passing |= relisted_.contains(source) || (passing_.contains(source) && (IsGlue(source) || IsInlined(source)));
    if (passing) passing_.insert(uop);
    const bool pure = IsElementwise(uop->op()) || uop->op() == Op::BITCAST;
    // A maximum may be a macro, which writes its operands twice.
    if (pure && uop->op() != Op::MAX && Uses(uop) == 1 && !passing && !relisted_.contains(uop)) inlined_.insert(uop);
  }
}

// A register read once is read where it is used, unless something is written to
// it, or a scope opens or closes, in between.
void Inlining::InlineRegisters(const UOp* linear) {
  const auto list = linear->src();
  absl::flat_hash_map<const UOp*, size_t> read_at;  // where a value's text stands
  absl::flat_hash_map<const UOp*, size_t> next_store;
  size_t next_scope = list.size();
  for (size_t i = list.size(); i-- > 0;) {
    const UOp* uop = list[i];
    if (IsRegisterLoad(uop) && Uses(uop) == 1 && !relisted_.contains(uop) && !passing_.contains(uop)) {
      const UOp* storage = PointedStorage(uop->src(0));
      auto store = next_store.find(storage);
      const size_t end = std::min(next_scope, store == next_store.end() ? list.size() : store->second);
      auto at = read_at.find(uop);
      if (at != read_at.end() && at->second <= end && (at->second != next_scope || list[next_scope]->op() != Op::RANGE))
        inlined_.insert(uop);
    }
    if (uop->op() == Op::STORE || uop->op() == Op::ATOMICADD) next_store[PointedStorage(uop->src(0))] = i;
    if (uop->op() == Op::RANGE || uop->op() == Op::END || uop->op() == Op::IF || uop->op() == Op::ENDIF) next_scope = i;
    size_t place = i;
    if (IsInlined(uop) || IsGlue(uop)) {
      auto at = read_at.find(uop);
      if (at != read_at.end()) place = at->second;
    }
    for (const UOp* source : PrintedSources(uop)) read_at[source] = place;
  }
}

}  // namespace kiln::compiler
