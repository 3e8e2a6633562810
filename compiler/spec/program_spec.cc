#include "compiler/spec/program_spec.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/spec/program_fault.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

// Loops and IFs inside one another.
constexpr size_t kMaxNesting = 64;
constexpr unsigned __int128 kMuch = static_cast<unsigned __int128>(1) << 80;

class Checker {
 public:
  Checker(const Limits& limits, const Graph* graph) : limits_(limits), graph_(graph) {}

  absl::StatusOr<ProgramNeeds> Run(UOp* root) {
    for (UOp* uop : root->src()) {
      UOp* storage = uop->op() == Op::STORE || uop->op() == Op::ATOMICADD ? StorageUnder(uop->src(0)) : nullptr;
      if (storage != nullptr) written_.insert(storage);
    }
    for (size_t i = 0; i < root->src().size(); ++i) {
      UOp* uop = root->src(i);
      if (ProgramFault fault = Check(uop, static_cast<uint32_t>(i)); fault.code != v1::ERROR_CODE_UNSPECIFIED)
        return Error(uop, fault);
    }
    if (UOp* open = scopes_.innermost(); open != nullptr) {
      return Error(open, {v1::BAD_ARGUMENT, absl::StrCat("it is never closed; ",
                                                         open->op() == Op::IF ? "an ENDIF" : "an END", " closes it")});
    }
    for (UOp* uop : whole_group_) {
      const int64_t threads = uop->arg_as<WmmaArg>().threads;
      if (needs_.items_of_group() % threads == 0 && !varying_items_) continue;
      return Error(uop, {v1::BAD_ARGUMENT, absl::StrCat(threads, " items do it together, and a group here has ",
                                                        varying_items_ ? "up to " : "", needs_.items_of_group())});
    }
    KILN_RETURN_IF_ERROR(CheckTotals(root));
    return needs_;
  }

 private:
  absl::Status Error(const UOp* uop, const ProgramFault& fault) const {
    v1::ErrorDetail detail;
    detail.set_code(fault.code);
    detail.set_op(std::string(Name(uop->op())));
    const absl::Status status =
        MakeError(std::move(detail), absl::StrCat(Name(uop->op()), " in a program: ", fault.text));
    return graph_ == nullptr ? status : graph_->Locate(status, uop);
  }

  absl::Status TooLarge(const UOp* uop, absl::string_view limit, uint64_t most, unsigned __int128 used) const {
    const auto total = static_cast<uint64_t>(std::min<unsigned __int128>(used, ~uint64_t{0}));
    const absl::Status status = kiln::TooLarge(
        limit, most, total, absl::StrCat("a program of ", total, " ", limit, "; this server takes at most ", most));
    return graph_ == nullptr ? status : graph_->Locate(status, uop);
  }

  ProgramFault Check(UOp* uop, uint32_t position) {
    if (ProgramFault fault = FaultOf(uop, limits_); fault.code != v1::ERROR_CODE_UNSPECIFIED) return fault;
    if (ProgramFault fault = CheckSources(uop); fault.code != v1::ERROR_CODE_UNSPECIFIED) return fault;
    if (ProgramFault fault = CheckScopes(uop); fault.code != v1::ERROR_CODE_UNSPECIFIED) return fault;
    if (ProgramFault fault = CheckTogether(uop); fault.code != v1::ERROR_CODE_UNSPECIFIED) return fault;
    if (uop->op() == Op::SPECIAL) {
      if (ProgramFault fault = AddCoordinate(uop); fault.code != v1::ERROR_CODE_UNSPECIFIED) return fault;
    }
    scopes_.List(uop, position);
    uniform_[uop] = IsUniform(uop);
    const int64_t lanes = IsBareStorage(uop) ? 1 : NumElements(uop->shape());
    int64_t cost = std::max<int64_t>(lanes, 1);
    if (uop->op() == Op::WMMA) cost *= uop->arg_as<WmmaArg>().k;
    if (Is(uop->op(), kMemory) && !uop->src(0)->shape().empty())
      cost = std::max(cost, NumElements(uop->src(0)->shape()));
    needs_.instructions += cost;
    iterations_ = std::min(kMuch, iterations_);
    work_ = std::min(kMuch, work_ + iterations_ * static_cast<uint64_t>(cost));
    return {};
  }

  ProgramFault CheckSources(UOp* uop) {
    for (size_t i = 0; i < uop->src().size(); ++i) {
      UOp* source = uop->src(i);
      if (source->op() == Op::PARAM || source->op() == Op::BUFFER) {
        if (ProgramFault fault = AddStorage(source); fault.code != v1::ERROR_CODE_UNSPECIFIED) return fault;
      }
      if (NeedsNoListing(source)) continue;
      const bool needs_value = i < ValueSources(uop);
      if (needs_value ? scopes_.Find(source).has_value() : scopes_.WasListed(source)) continue;
      return {v1::BAD_ARGUMENT,
              absl::StrCat("source ", i, " (", Name(source->op()), ") ",
                           scopes_.WasListed(source) ? "stands in a loop or an IF that has closed; list it again"
                                                     : "is not listed before it",
                           AsSent(source))};
    }
    if (uop->op() == Op::PARAM || uop->op() == Op::BUFFER) return AddStorage(uop);
    return {};
  }

  // "; it is node 5 as sent": after import its op may be another than the client's.
  std::string AsSent(const UOp* uop) const {
    if (graph_ == nullptr) return "";
    const auto detail = DetailOf(graph_->Locate(MakeError(v1::BAD_ARGUMENT, ""), uop));
    return detail->has_node() ? absl::StrCat("; it is node ", detail->node(), " as sent") : "";
  }

  ProgramFault AddStorage(UOp* storage) {
    if (!storages_.insert(storage).second) return {};
    if (ProgramFault fault = FaultOf(storage, limits_); fault.code != v1::ERROR_CODE_UNSPECIFIED) return fault;
    const BufferArg& arg = storage->arg_as<BufferArg>();
    // A variable's slot is one among those of the PARAMs.
    const AddrSpace space = storage->IsVariable() ? AddrSpace::kGlobal : arg.addrspace;
    if (!slots_.try_emplace({space, arg.slot}, storage).second) {
      return {v1::BAD_ARGUMENT,
              absl::StrCat("slot ", arg.slot, " is storage of two kinds; one slot has one dtype, shape and device")};
    }
    const __int128 bytes = __int128{NumElements(storage->shape())} * ItemSize(storage->dtype());
    const auto capped = static_cast<int64_t>(std::min<__int128>(bytes, __int128{1} << 50));
    if (arg.addrspace == AddrSpace::kLocal) needs_.local_bytes += capped;
    if (arg.addrspace == AddrSpace::kReg) needs_.register_bytes += capped;
    return {};
  }

  ProgramFault CheckScopes(UOp* uop) {
    if (uop->op() == Op::RANGE || uop->op() == Op::IF) {
      const std::vector<UOp*> open = scopes_.open();
      // Two IFs of one gate are one node, and may nest.
      if (uop->op() == Op::RANGE && std::find(open.begin(), open.end(), uop) != open.end())
        return {v1::BAD_ARGUMENT, "it is open already; a loop inside it has another axis id"};
      if (open.size() >= kMaxNesting)
        return {v1::BAD_ARGUMENT, absl::StrCat("more than ", kMaxNesting, " loops and IFs inside one another")};
      scopes_.Open(uop);
      outer_iterations_.push_back(iterations_);
      outer_divergent_.push_back(divergent_);
      if (!uniform_of(uop->src(0)) && divergent_ == nullptr) divergent_ = uop;
      if (uop->op() == Op::RANGE) {
        const __int128 iterations = std::max<__int128>(uop->src(0)->bounds().max, 0);
        iterations_ = std::min(kMuch, std::min(kMuch, iterations_) * static_cast<unsigned __int128>(std::min<__int128>(
                                                                         iterations, __int128{1} << 40)));
      }
      return {};
    }
    if (uop->op() == Op::END) {
      if (!scopes_.Closes(uop)) {
        return {v1::BAD_ARGUMENT, absl::StrCat("it closes a loop that is not the innermost; ", Innermost())};
      }
      for (size_t i = 1; i < uop->src().size(); ++i) Close();
    }
    if (uop->op() == Op::ENDIF) {
      if (scopes_.innermost() != uop->src(0))
        return {v1::BAD_ARGUMENT, absl::StrCat("it closes an IF that is not the innermost; ", Innermost())};
      Close();
    }
    return {};
  }

  std::string Innermost() const {
    UOp* open = scopes_.innermost();
    return open == nullptr ? "nothing is open" : absl::StrCat("a ", Name(open->op()), " is");
  }

  void Close() {
    scopes_.Close();
    iterations_ = outer_iterations_.back();
    divergent_ = outer_divergent_.back();
    outer_iterations_.pop_back();
    outer_divergent_.pop_back();
  }

  // All items must come to a BARRIER, and to a WMMA that several of them do.
  ProgramFault CheckTogether(UOp* uop) {
    const bool warp = uop->op() == Op::WMMA && uop->arg_as<WmmaArg>().threads > 1;
    if (warp) whole_group_.push_back(uop);
    if ((uop->op() != Op::BARRIER && !warp) || divergent_ == nullptr) return {};
    return {v1::BAD_ARGUMENT, absl::StrCat("it stands in a ", Name(divergent_->op()),
                                           " that items of one group may take differently; all of them must come to "
                                           "it")};
  }

  bool uniform_of(UOp* uop) const {
    if (NeedsNoListing(uop)) return true;
    const auto found = uniform_.find(uop);
    return found != uniform_.end() && found->second;
  }

  // The same for all items of a group, wherever they all get to it.
  bool IsUniform(UOp* uop) const {
    switch (uop->op()) {
      case Op::SPECIAL: return uop->arg_as<TextArg>().text[0] != 'l' || uop->src(0)->IsConstInt(1);
      case Op::AFTER: return uniform_of(uop->src(0));
      case Op::CUSTOMI:
      case Op::WMMA: return false;
      case Op::LOAD: {
        UOp* storage = StorageUnder(uop->src(0));
        if (storage->addrspace() != AddrSpace::kGlobal || written_.contains(storage)) return false;
        break;
      }
      default: break;
    }
    return std::all_of(uop->src().begin(), uop->src().end(), [this](UOp* source) { return uniform_of(source); });
  }

  static bool SameBound(const UOp* a, const UOp* b) {
    return a == b || (a->IsConst() && b->IsConst() && a->const_int() == b->const_int());
  }

  ProgramFault AddCoordinate(UOp* uop) {
    char kind = 0;
    int axis = 0;
    const std::string& name = uop->arg_as<TextArg>().text;
    ParseCoordinate(name, kind, axis);
    const __int128 most = uop->src(0)->bounds().max;
    const auto bound = static_cast<int64_t>(std::min<__int128>(most, std::numeric_limits<int64_t>::max()));
    const auto [known, is_new] = coordinates_.try_emplace({kind == 'l', axis}, name, uop->src(0));
    if (!is_new && (known->second.first != name || !SameBound(known->second.second, uop->src(0)))) {
      return {v1::BAD_ARGUMENT, absl::StrCat(name, " up to ", bound, " beside ", known->second.first, " up to ",
                                             static_cast<int64_t>(known->second.second->bounds().max),
                                             "; one axis has one name and one bound")};
    }
    if (kind != 'l' && bound > int64_t{limits_.max_groups})
      return {v1::BAD_ARGUMENT, absl::StrCat(name, " up to ", bound, "; at most ", limits_.max_groups)};
    if (kind == 'l' && bound > int64_t{limits_.max_items})
      return {v1::BAD_ARGUMENT,
              absl::StrCat(name, " up to ", bound, "; a group has at most ", limits_.max_items, " items")};
    (kind == 'l' ? needs_.items : needs_.groups)[axis] = bound;
    varying_items_ |= kind == 'l' && !uop->src(0)->IsConst();
    return {};
  }

  absl::Status CheckTotals(UOp* root) {
    const std::pair<absl::string_view, std::pair<uint64_t, int64_t>> totals[] = {
        {"items of a group", {limits_.max_items, needs_.items_of_group()}},
        {"bytes of LOCAL storage", {limits_.max_local_bytes, needs_.local_bytes}},
        {"bytes of REG storage", {limits_.max_register_bytes, needs_.register_bytes}},
        {"instructions", {limits_.max_instructions, needs_.instructions}},
    };
    for (const auto& [limit, total] : totals) {
      if (static_cast<uint64_t>(total.second) > total.first) return TooLarge(root, limit, total.first, total.second);
    }
    unsigned __int128 work = work_;
    for (const int64_t n : {needs_.items_of_group(), needs_.groups[0], needs_.groups[1], needs_.groups[2]})
      work = std::min(kMuch, work) * static_cast<uint64_t>(n);
    if (work > limits_.max_work) return TooLarge(root, "operations", limits_.max_work, work);
    needs_.work = static_cast<uint64_t>(work);
    return absl::OkStatus();
  }

  const Limits& limits_;
  const Graph* graph_;
  ProgramNeeds needs_;
  ProgramScopes scopes_;
  absl::flat_hash_set<UOp*> written_;
  absl::flat_hash_set<UOp*> storages_;
  std::map<std::pair<AddrSpace, uint32_t>, UOp*> slots_;
  std::map<std::pair<bool, int>, std::pair<std::string, const UOp*>> coordinates_;
  absl::flat_hash_map<UOp*, bool> uniform_;
  std::vector<UOp*> whole_group_;     // instructions that several items do together
  bool varying_items_ = false;        // a group has as many as variables say
  unsigned __int128 work_ = 0;        // of one item
  unsigned __int128 iterations_ = 1;  // of the loops around, together
  UOp* divergent_ = nullptr;          // the outermost enclosure that items take differently
  std::vector<unsigned __int128> outer_iterations_;
  std::vector<UOp*> outer_divergent_;
};

}  // namespace

absl::StatusOr<ProgramNeeds> VerifyProgram(UOp* root, const Limits& limits, const Graph* graph) {
  if (root->op() != Op::LINEAR) {
    return MakeError(v1::BAD_ROOT,
                     absl::StrCat("the root of a program is a LINEAR of its instructions, not ", Name(root->op())));
  }
  return Checker(limits, graph).Run(root);
}

bool ParseCoordinate(const std::string& name, char& kind, int& axis) {
  const size_t at = name.find("idx");
  if (at > 1 || name.size() != at + 4 || name.back() < '0' || name.back() > '2') return false;
  if (at == 1 && name[0] != 'g' && name[0] != 'l') return false;
  kind = name[0];
  axis = name.back() - '0';
  return true;
}

}  // namespace kiln::compiler
