#include "compiler/interp/interp.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/interp/arguments.h"
#include "compiler/interp/eval.h"
#include "compiler/interp/kernel_list.h"
#include "compiler/interp/plan.h"
#include "compiler/interp/program.h"
#include "compiler/interp/split.h"
#include "compiler/structure/entry.h"

namespace kiln::compiler {
namespace {

// Runs the tasks of one plan, and lets go of each value after its last use.
class Run {
 public:
  Run(const Plan& plan, const HostTensors& arguments, const InterpOptions& options)
      : plan_(plan), arguments_(arguments), options_(options), values_(plan.tasks().size()), uses_(values_.size(), 0) {
    for (const Task& task : plan.tasks()) {
      for (uint32_t source : task.sources) ++uses_[source];
    }
    for (uint32_t result : plan.results()) ++uses_[result];
    for (const auto& [number, slot] : plan.slots()) uses_[slot.final_task] += !slot.stores.empty();
  }

  absl::StatusOr<InterpResult> Finish() {
    for (size_t i = 0; i < values_.size(); ++i) KILN_RETURN_IF_ERROR(RunTask(i));
    InterpResult result;
    for (uint32_t task : plan_.results()) result.results.push_back(ToHost(values_[task]));
    for (const auto& [number, slot] : plan_.slots()) {
      if (!slot.stores.empty()) result.written[number] = ToHost(values_[slot.final_task]);
    }
    return result;
  }

 private:
  absl::Status RunTask(size_t i) {
    const Task& task = plan_.tasks()[i];
    if (uses_[i] == 0) return absl::OkStatus();
    std::vector<const Tensor*> sources;
    for (uint32_t source : task.sources) sources.push_back(&values_[source]);
    if (task.kind == Task::Kind::kCalled) {
      KILN_ASSIGN_OR_RETURN(values_[i], RunCall(task, sources));
      KILN_RETURN_IF_ERROR(Reserve(values_[i].shape));
    } else {
      const bool stored = task.kind == Task::Kind::kStored;
      KILN_RETURN_IF_ERROR(Reserve(stored ? sources[0]->shape : task.uop->shape()));
      values_[i] = Evaluate(task, sources);
    }
    for (uint32_t source : task.sources) {
      if (--uses_[source] > 0) continue;
      live_bytes_ -= values_[source].size() * kCellBytes;
      values_[source] = Tensor();
    }
    return absl::OkStatus();
  }

  // The storage that is one slot of a kernel's body, after the kernel. On a tuple of
  // devices each runs it, on its shares.
  absl::StatusOr<Tensor> RunCall(const Task& task, Operands sources) {
    const std::vector<KernelCall::Argument>& bound = plan_.CallOf(task.uop).arguments;
    std::vector<Split> splits;
    const Tensor* before = nullptr;
    Split written;
    for (size_t k = 0; k < bound.size(); ++k) {
      splits.push_back(SplitOf(bound[k].written ? WholeStorage(bound[k].argument) : bound[k].argument));
      if (bound[k].param->arg_as<BufferArg>().slot != task.slot) continue;
      before = sources[k];
      written = splits.back();
    }
    HostTensor after = ToHost(*before);
    for (int64_t share = 0; share < written.shares; ++share) {
      HostTensors arguments;
      for (size_t k = 0; k < bound.size(); ++k)
        arguments[bound[k].param->arg_as<BufferArg>().slot] = ShareOf(ToHost(*sources[k]), splits[k], share);
      KILN_ASSIGN_OR_RETURN(const InterpResult result, Interpret(task.uop->src(0), arguments, options_));
      const auto found = result.written.find(task.slot);
      if (found != result.written.end()) PutShare(found->second, written, share, after);
    }
    return FromHost(after);
  }

  absl::Status Reserve(const Shape& shape) {
    live_bytes_ += NumElements(shape) * kCellBytes;
    if (live_bytes_ <= options_.max_bytes) return absl::OkStatus();
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_MEMORY);
    detail.set_limit("interpreter bytes");
    detail.set_limit_value(static_cast<uint64_t>(options_.max_bytes));
    detail.set_used(static_cast<uint64_t>(live_bytes_));
    return MakeError(std::move(detail),
                     absl::StrCat("a tensor of shape ", ToString(shape), " is more than the interpreter may hold"));
  }

  Tensor Evaluate(const Task& task, Operands sources) {
    const UOp& uop = *task.uop;
    if (task.kind == Task::Kind::kSame) return *sources[0];
    if (task.kind == Task::Kind::kStored) {
      return EvalStore(*sources[0], *sources[1], *sources[2], sources.size() > 3 ? sources[3] : nullptr);
    }
    const bool address = task.kind == Task::Kind::kAddress;
    if (IsElementwise(uop.op())) return EvalElementwise(uop, sources);
    switch (As<NonAluOp>(uop.op())) {
      case NonAluOp::PARAM:
      case NonAluOp::BUFFER: {
        if (address) return Iota(uop.shape());
        const HostTensor& argument = arguments_.at(uop.arg_as<BufferArg>().slot);
        return FromHost({uop.dtype(), uop.shape(), argument.bytes});
      }
      case NonAluOp::CONST: {
        Tensor scalar(uop.dtype(), {});
        if (uop.IsConst()) scalar.Set(0, uop.arg_as<ConstArg>().bits);
        return scalar;
      }
      case NonAluOp::BINARY: return FromHost({uop.dtype(), uop.shape(), uop.arg_as<TextArg>().text});
      case NonAluOp::DETACH:
      case NonAluOp::CONTIGUOUS_BACKWARD:
      case NonAluOp::AFTER:
      case NonAluOp::GETTUPLE: return *sources[0];
      case NonAluOp::BITCAST: return address ? *sources[0] : EvalBitcast(uop, *sources[0]);
      case NonAluOp::REDUCE: return EvalReduce(uop, *sources[0]);
      case NonAluOp::LOAD: return EvalLoad(uop, sources);
      case NonAluOp::PERMUTE:
      case NonAluOp::FLIP:
      case NonAluOp::RESHAPE:
      case NonAluOp::EXPAND:
      case NonAluOp::PAD:
      case NonAluOp::SHRINK:
      case NonAluOp::INDEX:
      case NonAluOp::STACK:
      case NonAluOp::REPLICATED: return EvalMovement(uop, sources, address ? OutOfRange::kInvalid : OutOfRange::kZero);
      // No task of a plan (plan.cc).
      case NonAluOp::FUNCTION:
      case NonAluOp::TUPLE:
      case NonAluOp::STORE:
      case NonAluOp::RANGE:
      case NonAluOp::END:
      case NonAluOp::GROUP:
      case NonAluOp::SINK:
      case NonAluOp::LINEAR:
      case NonAluOp::CALL:
      case NonAluOp::SPECIAL:
      case NonAluOp::BARRIER:
      case NonAluOp::IF:
      case NonAluOp::ENDIF:
      case NonAluOp::ATOMICADD:
      case NonAluOp::CUSTOM:
      case NonAluOp::CUSTOMI:
      case NonAluOp::WMMA: break;
    }
    KILN_CHECK(false);
    return {};
  }

  const Plan& plan_;
  const HostTensors& arguments_;
  const InterpOptions& options_;
  std::vector<Tensor> values_;
  std::vector<uint32_t> uses_;
  int64_t live_bytes_ = 0;
};

}  // namespace

absl::StatusOr<InterpResult> Interpret(UOp* root, const HostTensors& arguments, const InterpOptions& options) {
  switch (LevelOf(root)) {
    case EntryLevel::kTensor: break;
    case EntryLevel::kProgram: return InterpretProgram(root, arguments, options);
    case EntryLevel::kKernel: {
      Graph graph;
      KILN_ASSIGN_OR_RETURN(UOp * program, ListKernelPlainly(graph, root));
      return InterpretProgram(program, arguments, options);
    }
  }
  Plan plan;
  KILN_RETURN_IF_ERROR(plan.Build(root));
  for (const auto& [number, slot] : plan.slots()) KILN_RETURN_IF_ERROR(CheckArgument(number, slot.storage, arguments));
  return Run(plan, arguments, options).Finish();
}

}  // namespace kiln::compiler
