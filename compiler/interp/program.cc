#include "compiler/interp/program.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/interp/arguments.h"
#include "compiler/interp/program_state.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/code_text.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

absl::Status TooMuch(v1::ErrorCode code, absl::string_view limit, int64_t limit_value, int64_t used) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_limit(std::string(limit));
  detail.set_limit_value(static_cast<uint64_t>(limit_value));
  detail.set_used(static_cast<uint64_t>(used));
  return MakeError(std::move(detail), absl::StrCat("the program takes more than ", limit_value, " ", limit));
}

class ProgramRun {
 public:
  ProgramRun(const ProgramNeeds& needs, const InterpOptions& options) : needs_(needs), options_(options) {
    state_.items = needs.items_of_group();
    std::copy_n(needs.items, 3, state_.group_items);
  }

  // Which listing each source is, and which END or ENDIF closes what.
  void Read(UOp* root) {
    ProgramScopes scopes;
    std::vector<size_t> open;
    for (UOp* uop : root->src()) {
      const size_t at = state_.steps.size();
      ProgramStep step{uop, 1, {}, 0};
      if (!IsBareStorage(uop)) step.lanes = NumElements(uop->shape());
      for (size_t k = 0; k < uop->src().size(); ++k) {
        const std::optional<uint32_t> position = scopes.Find(uop->src(k));
        const bool has_value = position.has_value() && k < ValueSources(uop) && !NeedsNoListing(uop->src(k));
        step.sources.push_back(has_value ? int64_t{*position} : kNoListing);
        if (IsBareStorage(uop->src(k))) storage_.insert(StorageUnder(uop->src(k)));
      }
      if (uop->op() == Op::PARAM || uop->op() == Op::BUFFER) storage_.insert(uop);
      const size_t closes = uop->op() == Op::END ? uop->src().size() - 1 : uop->op() == Op::ENDIF ? 1 : 0;
      for (size_t i = 0; i < closes; ++i) {
        scopes.Close();
        state_.steps[open.back()].closed_by = at;
        open.pop_back();
      }
      if (uop->op() == Op::RANGE || uop->op() == Op::IF) {
        scopes.Open(uop);
        open.push_back(at);
      }
      scopes.List(uop, static_cast<uint32_t>(at));
      if (uop->op() == Op::STORE || uop->op() == Op::ATOMICADD) written_.insert(StorageUnder(uop->src(0)));
      state_.steps.push_back(std::move(step));
    }
  }

  absl::Status Allocate(const HostTensors& arguments) {
    for (const UOp* storage : storage_) {
      if (storage->addrspace() != AddrSpace::kGlobal) continue;
      KILN_RETURN_IF_ERROR(CheckArgument(storage->arg_as<BufferArg>().slot, storage, arguments));
    }
    __int128 cells = 0;
    for (const ProgramStep& step : state_.steps) cells += __int128{step.lanes} * state_.items;
    for (const UOp* storage : storage_) cells += __int128{NumElements(storage->shape())} * Copies(storage);
    if (cells * static_cast<int64_t>(sizeof(uint64_t)) > options_.max_bytes)
      return TooMuch(v1::OUT_OF_MEMORY, "interpreter bytes", options_.max_bytes,
                     static_cast<int64_t>(cells) * static_cast<int64_t>(sizeof(uint64_t)));
    for (const UOp* storage : storage_) {
      ProgramMemory& memory = state_.memory[storage];
      memory.elements = NumElements(storage->shape());
      if (storage->addrspace() != AddrSpace::kGlobal) {
        memory.cells.resize(static_cast<size_t>(memory.elements * Copies(storage)));
        continue;
      }
      const HostTensor& argument = arguments.at(storage->arg_as<BufferArg>().slot);
      memory.cells = FromHost({storage->dtype(), storage->shape(), argument.bytes}).bits;
    }
    for (const ProgramStep& step : state_.steps)
      state_.values.emplace_back(static_cast<size_t>(step.lanes * state_.items), 0);
    return absl::OkStatus();
  }

  absl::Status Run() {
    int64_t (&group)[3] = state_.group;
    for (group[2] = 0; group[2] < needs_.groups[2]; ++group[2]) {
      for (group[1] = 0; group[1] < needs_.groups[1]; ++group[1]) {
        for (group[0] = 0; group[0] < needs_.groups[0]; ++group[0]) KILN_RETURN_IF_ERROR(RunGroup());
      }
    }
    return absl::OkStatus();
  }

  InterpResult Result() const {
    InterpResult result;
    for (const UOp* storage : written_) {
      if (storage->addrspace() != AddrSpace::kGlobal) continue;
      Tensor tensor(storage->dtype(), storage->shape());
      const std::vector<uint64_t>& cells = state_.memory.at(storage).cells;
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, cells[i]);
      result.written[storage->arg_as<BufferArg>().slot] = ToHost(tensor);
    }
    return result;
  }

 private:
  struct Scope {
    size_t step;
    std::vector<uint8_t> outer;   // who was active before it
    std::vector<int64_t> bounds;  // of a loop, by item
    int64_t iteration = -1;
  };

  int64_t Copies(const UOp* storage) const { return storage->addrspace() == AddrSpace::kReg ? state_.items : 1; }

  absl::Status RunGroup() {
    for (auto& [storage, memory] : state_.memory) {
      if (storage->addrspace() != AddrSpace::kGlobal) std::fill(memory.cells.begin(), memory.cells.end(), 0);
    }
    state_.active.assign(static_cast<size_t>(state_.items), 1);
    for (at_ = 0; at_ < state_.steps.size();) {
      const ProgramStep& step = state_.steps[at_];
      steps_run_ += std::max<int64_t>(step.lanes, 1) * state_.items;
      if (steps_run_ > options_.max_steps)
        return TooMuch(v1::GRAPH_TOO_LARGE, "interpreter steps", options_.max_steps, steps_run_);
      switch (step.uop->op()) {
        case Op::RANGE: EnterLoop(); break;
        case Op::END: NextIteration(at_); break;
        case Op::IF: EnterIf(); break;
        case Op::ENDIF: LeaveIf(); break;
        default: RunStep(state_, at_++); break;
      }
    }
    return absl::OkStatus();
  }

  bool AnyActive() const { return std::find(state_.active.begin(), state_.active.end(), 1) != state_.active.end(); }

  void EnterLoop() {
    const ProgramStep& step = state_.steps[at_];
    const DType dtype = step.uop->src(0)->dtype();
    Scope scope{at_, state_.active, std::vector<int64_t>(static_cast<size_t>(state_.items), 0), -1};
    for (int64_t item = 0; item < state_.items; ++item) {
      const uint64_t bound = state_.Value(step, 0, item, 0);
      // A loop that never ended would have been refused: no bound is beyond int64.
      scope.bounds[item] = IsSigned(dtype) || bound <= INT64_MAX ? static_cast<int64_t>(bound) : INT64_MAX;
    }
    scopes_.push_back(std::move(scope));
    NextIteration(step.closed_by);
  }

  // Of the innermost loop that END `end` closes; if none is left to anyone, of the
  // next one, and behind the last it goes on after `end`.
  void NextIteration(size_t end) {
    while (!scopes_.empty() && state_.steps[scopes_.back().step].closed_by == end) {
      Scope& scope = scopes_.back();
      ++scope.iteration;
      for (int64_t item = 0; item < state_.items; ++item)
        state_.active[item] = scope.outer[item] && scope.iteration < scope.bounds[item];
      if (AnyActive()) {
        for (int64_t item = 0; item < state_.items; ++item) {
          if (state_.active[item]) state_.values[scope.step][item] = static_cast<uint64_t>(scope.iteration);
        }
        at_ = scope.step + 1;
        return;
      }
      state_.active = std::move(scope.outer);
      scopes_.pop_back();
    }
    at_ = end + 1;
  }

  void EnterIf() {
    const ProgramStep& step = state_.steps[at_];
    scopes_.push_back({at_, state_.active, {}, -1});
    for (int64_t item = 0; item < state_.items; ++item) {
      if (state_.active[item]) state_.active[item] = state_.Value(step, 0, item, 0) != 0;
    }
    at_ = AnyActive() ? at_ + 1 : step.closed_by;
  }

  void LeaveIf() {
    state_.active = std::move(scopes_.back().outer);
    scopes_.pop_back();
    ++at_;
  }

  const ProgramNeeds& needs_;
  const InterpOptions& options_;
  ProgramState state_;
  std::set<const UOp*> storage_;
  std::set<const UOp*> written_;
  std::vector<Scope> scopes_;
  size_t at_ = 0;
  int64_t steps_run_ = 0;
};

}  // namespace

absl::StatusOr<InterpResult> InterpretProgram(UOp* root, const HostTensors& arguments, const InterpOptions& options) {
  const std::vector<UOp*> order = Toposort(root);
  if (std::any_of(order.begin(), order.end(), [](const UOp* uop) { return uop->IsVariable(); }))
    return MakeError(v1::UNSUPPORTED_OP, "the interpreter runs programs whose variables are bound (BindVariables)");
  const auto is_code = [](const UOp* uop) {
    return std::holds_alternative<CodeArg>(uop->arg()) || !SourceOf(uop).empty();
  };
  if (std::any_of(order.begin(), order.end(), is_code))
    return MakeError(v1::UNSUPPORTED_OP, "the interpreter runs no code of a client's own (CUSTOM, CUSTOMI, SOURCE)");
  KILN_ASSIGN_OR_RETURN(const ProgramNeeds needs, VerifyProgram(root, Limits(), nullptr));
  ProgramRun run(needs, options);
  run.Read(root);
  KILN_RETURN_IF_ERROR(run.Allocate(arguments));
  KILN_RETURN_IF_ERROR(run.Run());
  return run.Result();
}

}  // namespace kiln::compiler
