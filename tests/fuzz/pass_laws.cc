// Random programs, after every pass: the same memory at the end.
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/interp/tensor.h"
#include "compiler/kernel/bounds.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/kernel/simplify_ranges.h"
#include "compiler/opt/cpu/heuristic.h"
#include "compiler/pass/pipeline.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/rules/symbolic.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/resolve_invalid.h"
#include "tests/fuzz/laws.h"
#include "tests/fuzz/random_graph.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {

using namespace compiler;  // NOLINT: a test about the IR

namespace {

constexpr int64_t kMaxSteps = 2'000'000;

struct KernelPass {
  const char* name;
  std::function<UOp*(Graph&, UOp*)> run;
  bool idempotent;
};

const std::vector<KernelPass>& KernelPasses() {
  static const auto& passes = *new std::vector<KernelPass>{
      {"simplify", [](Graph& g, UOp* sink) { return GraphRewrite(sink, SymbolicRules(), g); }, true},
      {"simplify ranges", [](Graph& g, UOp* sink) { return SimplifyRanges(g, sink); }, true},
      {"decompose", [](Graph& g, UOp* sink) { return Decompose(g, sink, NativeOps()); }, true},
      {"optimize",
       [](Graph& g, UOp* sink) {
         v1::Target target;
         target.set_kind(v1::Target::NULL_TARGET);
         target.mutable_tuning()->set_vector_bytes(32);
         target.mutable_tuning()->set_vector_registers(16);
         return ApplyOpts(g, sink, ChooseOpts(sink, target));
       },
       false},
      {"bounds", [](Graph& g, UOp* sink) { return *ProveBounds(g, sink, false); }, true},
      {"expand", [](Graph& g, UOp* sink) { return Expand(g, sink); }, true},
      {"reduce to acc, linearize", [](Graph& g, UOp* sink) { return Linearize(g, ReduceToAcc(g, sink)); }, false},
  };
  return passes;
}

// Decompositions of these may differ in the last places.
bool IsInexact(UOp* kernel) {
  for (const UOp* uop : Toposort(kernel)) {
    switch (uop->op()) {
      case Op::EXP2:
      case Op::LOG2:
      case Op::SIN:
      case Op::POW: return true;
      default: break;
    }
  }
  return false;
}

std::vector<uint64_t> CellsOf(DType dtype, const std::string& bytes) {
  std::vector<uint64_t> cells;
  const auto size = static_cast<size_t>(ItemSize(dtype));
  for (size_t at = 0; at < bytes.size(); at += size) cells.push_back(LoadElement(dtype, bytes.data() + at));
  return cells;
}

HostTensor TensorOf(const HostTensor& like, const std::vector<uint64_t>& cells) {
  HostTensor tensor{like.dtype, like.shape, std::string(like.bytes.size(), '\0')};
  const auto size = static_cast<size_t>(ItemSize(like.dtype));
  for (size_t i = 0; i < cells.size(); ++i) StoreElement(like.dtype, cells[i], tensor.bytes.data() + i * size);
  return tensor;
}

// The memory of a program by the PARAM, BUFFER or BINARY of each buffer.
using Memory = absl::flat_hash_map<UOp*, std::vector<uint64_t>>;

class PassLaws {
 public:
  PassLaws(Graph& graph, std::map<std::string, int64_t>& met, bool inexact)
      : graph_(graph), met_(met), inexact_(inexact) {}

  // Runs one CALL, and its kernel after each pass.
  std::string Call(UOp* call, Memory& memory) {
    UOp* kernel = call->src(0);
    KernelMemory buffers;
    for (uint32_t slot = 0; slot + 1 < call->src().size(); ++slot)
      buffers[slot] = CellsFor(call->src(slot + 1), memory);
    const KernelMemory start = buffers;
    absl::Status status = EvalKernel(kernel, buffers, kMaxSteps);
    if (absl::IsResourceExhausted(status)) {
      ++met_["pass: kernels too large to try"];
      return "too large";
    }
    if (!status.ok()) return absl::StrCat(status.ToString(), " in\n", ToText(kernel));
    for (uint32_t slot = 0; slot + 1 < call->src().size(); ++slot) memory[call->src(slot + 1)] = buffers.at(slot);
    return Passes(kernel, start, buffers);
  }

 private:
  static std::vector<uint64_t>& CellsFor(UOp* buffer, Memory& memory) {
    const auto [found, is_new] = memory.try_emplace(buffer);
    if (is_new && buffer->op() == Op::BINARY) {
      found->second = CellsOf(DType::kUint8, buffer->arg_as<TextArg>().text);
    } else if (is_new) {
      found->second.assign(static_cast<size_t>(NumElements(buffer->shape())), 0);
    }
    return found->second;
  }

  std::string Passes(UOp* kernel, const KernelMemory& start, const KernelMemory& expected) {
    for (const KernelPass& pass : KernelPasses()) {
      UOp* before = kernel;
      kernel = pass.run(graph_, before);
      const std::string both = absl::StrCat(pass.name, " made of\n", ToText(before), "this:\n", ToText(kernel));
      if (pass.idempotent && pass.run(graph_, kernel) != kernel) return "not idempotent: " + both;
      if (kernel == before) continue;
      ++met_[absl::StrCat("pass: ", pass.name)];
      KernelMemory memory = start;
      if (absl::Status status = EvalKernel(kernel, memory, 4 * kMaxSteps); !status.ok())
        return absl::StrCat(status.ToString(), ": ", both);
      for (const auto& [slot, cells] : expected) {
        const DType dtype = DTypeOf(kernel, slot);
        for (size_t i = 0; i < cells.size(); ++i) {
          if (memory[slot][i] == cells[i]) continue;
          const std::string difference =
              CompareElement(dtype, memory[slot][i], cells[i], {inexact_ ? 8 : 0, /*zero_signs=*/false});
          if (!difference.empty()) return absl::StrCat("slot ", slot, ", element ", i, ": ", difference, ": ", both);
        }
      }
    }
    return "";
  }

  static DType DTypeOf(UOp* kernel, uint32_t slot) {
    for (const UOp* uop : Toposort(kernel)) {
      if (uop->op() == Op::PARAM && uop->arg_as<BufferArg>().slot == slot) return uop->dtype();
    }
    return DType::kUint64;
  }

  Graph& graph_;
  std::map<std::string, int64_t>& met_;
  const bool inexact_;
};

}  // namespace

std::string LawFuzzer::CheckPasses(uint64_t seed) {
  const RandomGraph made = MakeRandomGraph(seed);
  const auto arguments = RandomArguments(made.graph, seed);
  if (!arguments.ok()) return arguments.status().ToString();
  const std::string fault = CheckPassesOn(made.graph, *arguments, made.results);
  if (fault.empty()) return fault;
  return absl::StrCat(fault,
                      "\nto shrink it: bazel run //tests/reduce:kiln_reduce -- --breaks-laws --random-graph=", seed);
}

std::string LawFuzzer::CheckPassesOn(const v1::Graph& wire, const HostTensors& arguments,
                                     const std::vector<Tolerance>& results) {
  const auto want = RunInterpreted(wire, arguments);
  if (!want.ok()) return want.status().ToString();

  Graph graph;
  const auto root = FromWire(wire, Limits(), graph);
  if (!root.ok()) return root.status().ToString();
  const auto function = Callify(graph, *root);
  if (!function.ok()) return function.status().ToString();

  const auto compare = [&](const char* pass, auto result_of, auto parameter_of) {
    ++met_[absl::StrCat("pass: ", pass)];
    std::string faults;
    for (size_t i = 0; i < want->results.size(); ++i)
      absl::StrAppend(&faults, CompareTensors(result_of(i), want->results[i], results[i]));
    for (const auto& [slot, tensor] : want->written)
      absl::StrAppend(&faults, CompareTensors(parameter_of(slot), tensor, {0, /*zero_signs=*/false}));
    return faults.empty() ? faults : absl::StrCat(pass, ":\n", faults, PrintGraph(wire));
  };
  absl::flat_hash_map<uint32_t, size_t> position;  // of a parameter, by its slot
  for (const auto& [slot, tensor] : arguments) position.emplace(slot, position.size());

  // The passes of tensors: the interpreter runs what they leave.
  for (const bool resolved : {false, true}) {
    UOp* sink = resolved ? ResolveInvalid(graph, function->sink) : function->sink;
    HostTensors slots;
    for (const auto& [slot, tensor] : arguments) slots[slot] = tensor;
    for (size_t i = 0; i < function->results.size(); ++i) {
      UOp* buffer = function->results[i].buffer;
      if (buffer == nullptr) continue;
      slots[buffer->arg_as<BufferArg>().slot] = {buffer->dtype(), buffer->shape(),
                                                 std::string(want->results[i].bytes.size(), '\0')};
    }
    const auto outcome = Interpret(sink, slots);
    if (!outcome.ok()) return outcome.status().ToString();
    const auto slot_now = [&](uint32_t slot) {
      const auto found = outcome->written.find(slot);
      return found == outcome->written.end() ? slots.at(slot) : found->second;
    };
    const auto result = [&](size_t i) {
      const auto& given = function->results[i];
      return slot_now(given.buffer != nullptr ? given.buffer->arg_as<BufferArg>().slot
                                              : function->parameters[*given.aliases]->arg_as<BufferArg>().slot);
    };
    if (std::string faults = compare(resolved ? "resolve invalid" : "callify", result, slot_now); !faults.empty())
      return faults;
  }

  // The kernels, one after the other, each after every pass.
  const Options options;
  Lowering lowering(graph, options);
  lowering.function = *function;
  const auto calls = RunStage(lowering, Stage::kRangeify, function->sink);
  if (!calls.ok()) return calls.status().ToString();
  Memory memory;
  for (const auto& [slot, tensor] : arguments)
    memory[function->parameters[position[slot]]] = CellsOf(tensor.dtype, tensor.bytes);
  PassLaws laws(graph, met_, IsInexact(function->sink));
  for (UOp* call : (*calls)->src()) {
    const std::string fault = laws.Call(call, memory);
    if (fault == "too large") return "";
    if (!fault.empty()) return absl::StrCat(fault, "in the program\n", PrintGraph(wire));
  }
  if (graph.restless() > 0) return absl::StrCat("rules did not come to rest in\n", PrintGraph(wire));
  const auto result = [&](size_t i) {
    const auto& given = function->results[i];
    UOp* home = given.buffer != nullptr ? given.buffer : function->parameters[*given.aliases];
    return TensorOf(want->results[i], memory[home]);
  };
  const auto parameter = [&](uint32_t slot) {
    return TensorOf(arguments.at(slot), memory[function->parameters[position[slot]]]);
  };
  return compare("rangeify", result, parameter);
}

}  // namespace kiln::testing
