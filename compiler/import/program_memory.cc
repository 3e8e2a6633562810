// LOAD, STORE and INDEX in every order that frontends have written them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/program_importer.h"
#include "compiler/import/weak.h"
#include "compiler/ir/build.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

// Moves what has no value (BARRIERs, STOREs, an IF) out of src[from...].
std::vector<UOp*> TakeDeps(std::vector<UOp*>& src, size_t from) {
  std::vector<UOp*> deps, rest(src.begin(), src.begin() + static_cast<std::ptrdiff_t>(from));
  for (size_t i = from; i < src.size(); ++i) (src[i]->dtype() == DType::kVoid ? deps : rest).push_back(src[i]);
  src = std::move(rest);
  return deps;
}

UOp* Behind(Graph& graph, UOp* pointer, const std::vector<UOp*>& deps) {
  if (deps.empty()) return pointer;
  std::vector<UOp*> src = {pointer};
  src.insert(src.end(), deps.begin(), deps.end());
  return graph.Make(Op::AFTER, src);
}

absl::StatusOr<UOp*> Both(Graph& graph, UOp* a, UOp* b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  return graph.TryMake(Op::AND, {a, b});
}

}  // namespace

bool IsRecastPointer(const UOp* uop) {
  return uop->op() == Op::BITCAST && IsMemory(uop) && !IsBareStorage(uop->src(0)) &&
         ItemSize(uop->dtype()) == ItemSize(uop->src(0)->dtype());
}

bool ProgramImporter::IsOldAccess(uint32_t index, const std::vector<UOp*>& src) const {
  if (src.size() < 2 || !IsBareStorage(src[0]) || !IsInt(src[1]->dtype())) return false;
  if (legacy()) return true;
  // In today's dialect such an op may still stand in a program, where no LOAD or STORE takes
  // a storage whole; among tensors, the second source is an alternative or a value.
  const v1::Op base = wire(wire(index).src(0)).op();
  const bool old_storage = base == v1::DEFINE_GLOBAL || base == v1::DEFINE_LOCAL || base == v1::DEFINE_REG;
  return old_storage && in_programs_.contains(&wire(index));
}

absl::StatusOr<UOp*> ProgramImporter::Pointer(UOp* storage, UOp* place) {
  KILN_ASSIGN_OR_RETURN(place, StrengthenByDefault(graph_, place));
  KILN_ASSIGN_OR_RETURN(UOp * pointer, graph_.TryMake(Op::INDEX, {storage, place}));
  return pointer;
}

absl::Status ProgramImporter::PrepareIndex(uint32_t index, std::vector<UOp*>& src) {
  if (src.size() >= 3 && src.back()->dtype() == DType::kBool && IsMemory(src[0])) {
    notes_[index].gate = src.back();
    src.pop_back();
  }
  return absl::OkStatus();
}

absl::StatusOr<UOp*> ProgramImporter::Load(uint32_t index, std::vector<UOp*>& src) {
  if (src.empty() || !IsMemory(src[0])) return nullptr;
  const std::vector<UOp*> deps = TakeDeps(src, 1);
  UOp* pointer = src[0];
  UOp* gate = SourceNote(index, 0).gate;
  const bool old = IsOldAccess(index, src);
  if (!old && gate == nullptr && deps.empty() && !has_list_ && !legacy()) return nullptr;
  if (old) {
    KILN_ASSIGN_OR_RETURN(pointer, Pointer(src[0], src[1]));
  }
  std::vector<UOp*> extras(src.begin() + (old ? 2 : 1), src.end());
  if (extras.size() > 2) {
    return MakeError(v1::WRONG_SOURCE_COUNT, absl::StrCat("LOAD has ", extras.size(),
                                                          " values beside its place; an alternative and a gate "
                                                          "are all it takes"));
  }
  // By dtype; memory of bools is told by position.
  const bool bools = pointer->dtype() == DType::kBool;
  const auto is_gate = [&](size_t i) {
    if (!bools) return extras[i]->dtype() == DType::kBool;
    return old ? i == 0 : i == 1;
  };
  UOp* alt = nullptr;
  UOp* own_gate = nullptr;
  for (size_t i = 0; i < extras.size(); ++i) {
    UOp*& role = is_gate(i) ? own_gate : alt;
    if (role != nullptr) {
      return MakeError(v1::DTYPE_MISMATCH, absl::StrCat("LOAD of ", Name(pointer->dtype()),
                                                        " has two values beside its place that are both ",
                                                        is_gate(i) ? "gates" : "alternatives"));
    }
    role = extras[i];
  }
  KILN_ASSIGN_OR_RETURN(gate, Both(graph_, gate, own_gate));
  UOp* seen = pointer;
  if (IsRecastPointer(pointer)) pointer = pointer->src(0);
  if (alt != nullptr) {
    KILN_ASSIGN_OR_RETURN(alt, Strengthen(graph_, alt, IsWeak(alt->dtype()) ? seen->dtype() : alt->dtype()));
    if (seen != pointer) {
      KILN_ASSIGN_OR_RETURN(alt, graph_.TryMake(Op::BITCAST, {alt}, pointer->dtype()));
    }
  } else if (gate != nullptr) {
    alt = ConstNumber(graph_, pointer->dtype(), 0);
  }
  std::vector<UOp*> parts = {Behind(graph_, pointer, deps)};
  if (alt != nullptr) parts.push_back(alt);
  if (gate != nullptr) parts.push_back(gate);
  KILN_ASSIGN_OR_RETURN(UOp * load, graph_.TryMake(Op::LOAD, parts));
  if (seen == pointer) return load;
  UOp* value = graph_.Make(Op::BITCAST, {load}, seen->dtype());
  notes_[index].lists = {{load, value}};
  return value;
}

absl::Status ProgramImporter::PrepareStore(uint32_t index, std::vector<UOp*>& src) {
  if (src.size() < 2 || !IsMemory(src[0])) return absl::OkStatus();
  const std::vector<UOp*> deps = TakeDeps(src, 1);
  if (src.size() >= 3 && IsOldAccess(index, src)) {
    KILN_ASSIGN_OR_RETURN(src[0], Pointer(src[0], src[1]));
    src.erase(src.begin() + 1);
  }
  if (src.size() < 2) return absl::OkStatus();
  // Lanes stored to one place lie from there on.
  UOp* pointer = src[0];
  if ((has_list_ || legacy()) && pointer->op() == Op::INDEX && pointer->src().size() == 2 && pointer->shape().empty() &&
      src[1]->shape().size() == 1 && IsConst(src[1]->shape()) && IsBareStorage(pointer->src(0))) {
    KILN_ASSIGN_OR_RETURN(
        src[0], graph_.TryMake(Op::SHRINK, {pointer->src(0), pointer->src(1), Idx(graph_, src[1]->shape()[0])}));
  }
  if (has_list_ && IsRecastPointer(src[0])) {
    KILN_ASSIGN_OR_RETURN(src[1], Strengthen(graph_, src[1], src[0]->dtype()));
    src[0] = src[0]->src(0);
    KILN_ASSIGN_OR_RETURN(src[1], graph_.TryMake(Op::BITCAST, {src[1]}, src[0]->dtype()));
  }
  src[0] = Behind(graph_, src[0], deps);
  KILN_ASSIGN_OR_RETURN(UOp * gate, Both(graph_, SourceNote(index, 0).gate, src.size() > 2 ? src[2] : nullptr));
  if (gate == nullptr) return absl::OkStatus();
  if (src.size() > 2) {
    src[2] = gate;
  } else {
    src.push_back(gate);
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
