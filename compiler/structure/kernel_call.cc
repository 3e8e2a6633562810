#include "compiler/structure/kernel_call.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/devices.h"
#include "compiler/structure/program_scopes.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {
namespace {

bool TakesSlot(const UOp* uop) {
  return uop->IsVariable() ||
         ((uop->op() == Op::PARAM || uop->op() == Op::BUFFER) && uop->addrspace() == AddrSpace::kGlobal);
}

// What each slot of the body is.
absl::StatusOr<std::map<uint32_t, UOp*>> SlotsOf(UOp* body) {
  std::map<uint32_t, UOp*> slots;
  for (UOp* uop : Toposort(body)) {
    if (uop->op() == Op::CALL || uop->op() == Op::FUNCTION)
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(uop->op()), " in the body of a CALL of a kernel"));
    if (!TakesSlot(uop)) continue;
    const uint32_t slot = uop->arg_as<BufferArg>().slot;
    const auto [known, is_new] = slots.emplace(slot, uop);
    if (is_new || known->second == uop) continue;
    return SlotError(v1::BAD_ARGUMENT, slot,
                     absl::StrCat("slot ", slot, " of CALL's body is used as ", Name(known->second->dtype()), " ",
                                  ToString(known->second->shape()), " and as ", Name(uop->dtype()), " ",
                                  ToString(uop->shape()), "; a slot has one dtype, shape and name"));
  }
  return slots;
}

absl::Status CheckStorage(const UOp* param, const UOp* argument, uint32_t slot) {
  if (argument->dtype() != param->dtype()) {
    return SlotError(v1::DTYPE_MISMATCH, slot,
                     absl::StrCat("argument ", slot, " of CALL is ", Name(argument->dtype()), ", and slot ", slot,
                                  " of its body ", Name(param->dtype())));
  }
  const int64_t shares = argument->axis() < 0 ? 1 : DeviceCount(argument->device());
  if (IsConst(argument->shape()) && IsConst(param->shape())) {
    const int64_t elements = NumElements(argument->shape());
    if (elements % shares == 0 && elements / shares == NumElements(param->shape())) return absl::OkStatus();
  }
  const std::string split = shares == 1 ? "" : absl::StrCat(", a share of it on each of ", shares, " devices");
  return SlotError(
      v1::SHAPE_MISMATCH, slot,
      absl::StrCat("argument ", slot, " of CALL has the shape ", ToString(argument->shape()), split, ", and slot ",
                   slot, " of its body ", ToString(param->shape()), "; they are to have as many elements, a number"));
}

}  // namespace

absl::flat_hash_set<uint32_t> SlotsWritten(UOp* body) {
  absl::flat_hash_set<uint32_t> slots;
  for (UOp* uop : Toposort(body)) {
    if (uop->op() != Op::STORE && uop->op() != Op::ATOMICADD) continue;
    UOp* storage = uop->src(0);
    while ((Is(storage->op(), kMovement) && storage->op() != Op::STACK) || storage->op() == Op::AFTER)
      storage = storage->src(0);
    if (TakesSlot(storage)) slots.insert(storage->arg_as<BufferArg>().slot);
  }
  return slots;
}

absl::StatusOr<KernelCall> ReadKernelCall(UOp* call) {
  UOp* body = call->src(0);
  const absl::Span<UOp* const> given = call->src().subspan(1);
  KILN_ASSIGN_OR_RETURN(const auto slots, SlotsOf(body));
  const absl::flat_hash_set<uint32_t> written = SlotsWritten(body);
  KernelCall read;
  std::map<const UOp*, uint32_t> stored;
  for (const auto& [slot, param] : slots) {
    if (slot >= given.size()) {
      if (!param->IsVariable()) {
        return SlotError(v1::WRONG_SOURCE_COUNT, slot,
                         absl::StrCat("CALL's body has slot ", slot, ", and it is given ", given.size(), " arguments"));
      }
      read.arguments.push_back({param, param, false});
      continue;
    }
    UOp* argument = given[slot];
    KILN_RETURN_IF_ERROR(param->IsVariable() ? CheckPassed(param, argument, "CALL")
                                             : CheckStorage(param, argument, slot));
    read.arguments.push_back({param, argument, written.contains(slot)});
    if (!written.contains(slot)) continue;
    const UOp* storage = WholeStorage(argument);
    if (storage == nullptr) {
      return SlotError(v1::BAD_ARGUMENT, slot,
                       absl::StrCat("argument ", slot, " of CALL is ", Name(argument->op()),
                                    ", and its body stores to it: that is to be a PARAM or BUFFER, whole"));
    }
    const auto [other, is_new] = stored.emplace(storage, slot);
    if (is_new) continue;
    return SlotError(v1::BAD_ARGUMENT, slot,
                     absl::StrCat("arguments ", other->second, " and ", slot,
                                  " of CALL are one storage, and its body stores to both"));
  }
  return read;
}

UOp* WholeStorage(UOp* argument) {
  while (argument->op() == Op::RESHAPE || argument->op() == Op::AFTER) argument = argument->src(0);
  const bool storage = argument->op() == Op::PARAM || argument->op() == Op::BUFFER;
  return storage && argument->addrspace() == AddrSpace::kGlobal ? argument : nullptr;
}

}  // namespace kiln::compiler
