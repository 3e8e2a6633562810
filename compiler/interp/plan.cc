#include "compiler/interp/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/structure/program_scopes.h"
#include "compiler/structure/updates.h"

namespace kiln::compiler {
namespace {

// Above these a program is not for a slow engine.
constexpr size_t kMaxStores = 4096;
constexpr size_t kMaxTasks = 1 << 21;

absl::Status TooLarge(absl::string_view what) {
  return MakeError(v1::GRAPH_TOO_LARGE, absl::StrCat("the interpreter takes no program with so many ", what));
}

absl::Status Unsupported(const UOp* uop) {
  return MakeError(v1::UNSUPPORTED_OP,
                   absl::StrCat("the interpreter runs tensor graphs, which have no ", Name(uop->op())));
}

bool IsStorage(const UOp* uop) { return uop->op() == Op::PARAM || uop->op() == Op::BUFFER; }
// A movement op that reads its first source only through its position.
bool IsChainLink(const UOp* uop) { return Is(uop->op(), kMovement) && uop->op() != Op::STACK; }

}  // namespace

absl::Status Plan::Build(UOp* root) {
  if (root->op() != Op::TUPLE && root->op() != Op::SINK) {
    return MakeError(v1::BAD_ROOT, absl::StrCat("the root must be a TUPLE or a SINK, not ", Name(root->op())));
  }
  const std::vector<UOp*> order = ToposortScope(root);
  for (UOp* uop : order) {
    if (uop->op() == Op::SHRINK && MayLeaveItsSource(uop)) return Unsupported(uop);
  }
  KILN_RETURN_IF_ERROR(FindStorage(order));
  return PlanRoot(root);
}

absl::Status Plan::FindStorage(absl::Span<UOp* const> order) {
  size_t stores = 0;
  for (UOp* uop : order) {
    if (uop->IsVariable() || !IsConst(uop->shape()))
      return MakeError(v1::UNSUPPORTED_OP, "the interpreter runs graphs whose variables are bound (BindVariables)");
    if (!IsStorage(uop)) continue;
    if (uop->addrspace() != AddrSpace::kGlobal) return Unsupported(uop);
    Slot& slot = slots_[uop->arg_as<BufferArg>().slot];
    if (slot.storage == nullptr) slot.storage = uop;
    if (slot.storage->dtype() == uop->dtype() && slot.storage->shape() == uop->shape()) continue;
    return MakeError(v1::BAD_ARGUMENT,
                     absl::StrCat("slot ", uop->arg_as<BufferArg>().slot, " has two dtypes or shapes"));
  }
  for (UOp* uop : order) {
    if (uop->op() != Op::STORE && uop->op() != Op::CALL) continue;
    if (++stores > kMaxStores) return TooLarge("STOREs");
    KILN_RETURN_IF_ERROR(FindStores(uop));
  }
  return absl::OkStatus();
}

absl::Status Plan::FindStores(UOp* uop) {
  if (uop->op() == Op::CALL) {
    KILN_ASSIGN_OR_RETURN(KernelCall call, ReadKernelCall(uop));
    for (const KernelCall::Argument& argument : call.arguments) {
      if (argument.param->IsVariable())
        return MakeError(v1::UNSUPPORTED_OP, "the interpreter runs graphs whose variables are bound (BindVariables)");
      if (argument.written) SlotOf(WholeStorage(argument.argument)).stores.push_back(uop);
    }
    calls_[uop] = std::move(call);
    return absl::OkStatus();
  }
  UOp* storage = StorageUnder(uop->src(0));
  if (storage == nullptr) {
    return MakeError(v1::BAD_ARGUMENT,
                     absl::StrCat("STORE writes to ", Name(uop->src(0)->op()), ", which is no storage"));
  }
  SlotOf(storage).stores.push_back(uop);
  return absl::OkStatus();
}

absl::Status Plan::PlanRoot(UOp* root) {
  for (auto& [number, slot] : slots_) {
    KILN_ASSIGN_OR_RETURN(slot.final_task, Add({Task::Kind::kValue, slot.storage, slot.stores.size()}));
  }
  for (UOp* source : root->src()) {
    if (source->op() == Op::STORE || source->op() == Op::GROUP || source->op() == Op::CALL) continue;
    if (source->dtype() == DType::kVoid) {
      return MakeError(v1::BAD_ROOT,
                       absl::StrCat("the root has a source ", Name(source->op()), ", which is no value and no STORE"));
    }
    UOp* below = UpdatedStorage(source);
    if (below != nullptr && IsStorage(below)) {
      results_.push_back(SlotOf(below).final_task);
    } else {
      KILN_ASSIGN_OR_RETURN(const uint32_t task, Add({Task::Kind::kValue, source, 0}));
      results_.push_back(task);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> Plan::Add(const Key& key) {
  struct Frame {
    Key key;
    std::vector<Key> sources;
    Task task;
  };
  std::vector<Frame> stack;
  auto push = [&](const Key& next) -> absl::Status {
    KILN_ASSIGN_OR_RETURN(std::vector<Key> sources, SourcesOf(next));
    Task task{next.kind, next.uop, {}};
    NameTask(next, task);
    stack.push_back({next, std::move(sources), std::move(task)});
    return absl::OkStatus();
  };
  if (auto found = planned_.find(key); found != planned_.end()) return found->second;
  KILN_RETURN_IF_ERROR(push(key));
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const size_t next = frame.task.sources.size();
    if (next < frame.sources.size()) {
      if (auto found = planned_.find(frame.sources[next]); found != planned_.end()) {
        frame.task.sources.push_back(found->second);
      } else {
        const Key source = frame.sources[next];
        KILN_RETURN_IF_ERROR(push(source));
      }
      continue;
    }
    if (tasks_.size() >= kMaxTasks) return TooLarge("values");
    planned_[frame.key] = static_cast<uint32_t>(tasks_.size());
    tasks_.push_back(std::move(frame.task));
    stack.pop_back();
  }
  return planned_[key];
}

void Plan::NameTask(const Key& key, Task& task) {
  if (key.kind != Task::Kind::kValue || !IsStorage(key.uop)) return;
  const Slot& slot = SlotOf(key.uop);
  if (key.uop != slot.storage) {
    task.kind = Task::Kind::kSame;
    return;
  }
  if (key.state == 0) return;
  task.uop = slot.stores[key.state - 1];
  task.kind = task.uop->op() == Op::CALL ? Task::Kind::kCalled : Task::Kind::kStored;
  if (task.kind == Task::Kind::kStored) return;
  for (const KernelCall::Argument& argument : calls_.at(task.uop).arguments) {
    if (argument.written && &SlotOf(WholeStorage(argument.argument)) == &slot)
      task.slot = argument.param->arg_as<BufferArg>().slot;
  }
}

std::vector<Plan::Key> Plan::StateSources(UOp* storage, size_t state) {
  const auto value = [](UOp* source, size_t at = 0) { return Key{Task::Kind::kValue, source, at}; };
  UOp* last = SlotOf(storage).stores[state - 1];
  std::vector<Key> sources;
  if (last->op() == Op::STORE) {
    sources = {value(storage, state - 1), {Task::Kind::kAddress, last->src(0), 0}};
    for (UOp* operand : last->src().subspan(1)) sources.push_back(value(operand));
    return sources;
  }
  for (const KernelCall::Argument& argument : calls_.at(last).arguments) {
    if (!argument.written) {
      sources.push_back(value(argument.argument));
      continue;
    }
    const Slot& slot = SlotOf(WholeStorage(argument.argument));
    const auto at = std::find(slot.stores.begin(), slot.stores.end(), last);
    sources.push_back(value(slot.storage, static_cast<size_t>(at - slot.stores.begin())));
  }
  return sources;
}

absl::StatusOr<std::vector<Plan::Key>> Plan::SourcesOf(const Key& key) {
  return key.kind == Task::Kind::kAddress ? AddressSources(key) : ValueSources(key);
}

absl::StatusOr<std::vector<Plan::Key>> Plan::ValueSources(const Key& key) {
  UOp* uop = key.uop;
  const auto value = [](UOp* source, size_t state = 0) { return Key{Task::Kind::kValue, source, state}; };
  if (IsStorage(uop)) {
    const Slot& slot = SlotOf(uop);
    if (uop != slot.storage) return std::vector<Key>{value(slot.storage, key.state)};
    return key.state == 0 ? std::vector<Key>{} : StateSources(uop, key.state);
  }
  std::vector<Key> sources;
  switch (uop->op()) {
    case Op::CONST:
    case Op::BINARY: return sources;
    case Op::GETTUPLE: return std::vector<Key>{value(uop->src(0)->src(uop->arg_as<int64_t>()))};
    case Op::DETACH:
    case Op::CONTIGUOUS_BACKWARD: return std::vector<Key>{value(uop->src(0), key.state)};
    case Op::AFTER: return std::vector<Key>{value(uop->src(0), std::max(key.state, StateBehind(uop)))};
    case Op::REDUCE:
      if (uop->src().size() > 1) return Unsupported(uop->src(1));
      return std::vector<Key>{value(uop->src(0))};
    case Op::INDEX:
      sources.push_back(value(uop->src(0), key.state));
      for (UOp* index : uop->src().subspan(1)) sources.push_back(value(index));
      return sources;
    case Op::STACK:
    case Op::LOAD: break;
    default:
      if (Is(uop->op(), kMovement)) return std::vector<Key>{value(uop->src(0), key.state)};
      if (!IsElementwise(uop->op())) return Unsupported(uop);
  }
  for (UOp* source : uop->src()) sources.push_back(value(source));
  return sources;
}

absl::StatusOr<std::vector<Plan::Key>> Plan::AddressSources(const Key& key) {
  UOp* uop = key.uop;
  if (IsStorage(uop)) return std::vector<Key>{};
  if (uop->op() == Op::BITCAST && ItemSize(uop->dtype()) != ItemSize(uop->src(0)->dtype())) {
    return MakeError(v1::UNSUPPORTED_OP, "a STORE through BITCAST is not supported");
  }
  std::vector<Key> sources = {{Task::Kind::kAddress, uop->src(0), 0}};
  if (uop->op() == Op::INDEX) {
    for (UOp* index : uop->src().subspan(1)) sources.push_back({Task::Kind::kValue, index, 0});
  }
  return sources;
}

UOp* Plan::StorageUnder(UOp* uop) const {
  while (!IsStorage(uop)) {
    if (!IsChainLink(uop) && !Is(uop->op(), kMarker) && uop->op() != Op::AFTER) return nullptr;
    uop = uop->src(0);
  }
  return uop;
}

Slot& Plan::SlotOf(UOp* storage) { return slots_[storage->arg_as<BufferArg>().slot]; }

size_t Plan::StateBehind(UOp* uop) {
  // Only storage changes with time: a computed value is what it is.
  UOp* storage = StorageUnder(uop->src(0));
  if (storage == nullptr) return 0;
  const std::vector<UOp*>& stores = SlotOf(storage).stores;
  size_t state = 0;
  for (UOp* dep : uop->src().subspan(1)) {
    for (UOp* reached : ToposortScope(dep)) {
      const auto found = std::find(stores.begin(), stores.end(), reached);
      if (found != stores.end()) state = std::max(state, static_cast<size_t>(found - stores.begin()) + 1);
    }
  }
  return state;
}

}  // namespace kiln::compiler
