// The order of a compile, pass by pass. This table is all that says it: the compiler runs what stands here,
// and kiln_opt, --dump, `kiln explain`, --disable_pass and the goldens ask it for names.
//
// compile.cc goes through the stages of a program, lower/ through those of each kernel in it:
//   tensors         import, callify, rangeify, calls; each kernel: loops, accumulators, instructions; code
//   a client's own  import, entry, calls; then as above with loops, or program for instructions in order
//   a chain         each nest: loops, accumulators; then all of them: nests, instructions
//   several devices import_shards, shares, segments; then each segment from callify on
#include "compiler/pass/passes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/batch/batching.h"
#include "compiler/kernel/bounds.h"
#include "compiler/kernel/contract_products.h"
#include "compiler/kernel/dots.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/keep_row.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/kernel/simplify_ranges.h"
#include "compiler/lower/chain_nests.h"
#include "compiler/pass/graph_passes.h"
#include "compiler/pass/kernel_passes.h"
#include "compiler/program/place.h"
#include "compiler/program/program_bounds.h"
#include "compiler/program/program_values.h"
#include "compiler/program/work_groups.h"
#include "compiler/rules/decompose.h"
#include "compiler/schedule/chain/chain.h"
#include "compiler/schedule/kernel_entry.h"
#include "compiler/schedule/rangeify.h"
#include "compiler/schedule/realize.h"
#include "compiler/schedule/resolve_invalid.h"
#include "compiler/schedule/split_reduce.h"
#include "compiler/shard/shard_text.h"

namespace kiln::compiler {
namespace {

constexpr Need kRequired = Need::kRequired, kOptional = Need::kOptional;

// -- When a pass has something to do

Abilities Can(const Lowering& l) { return l.generator->abilities(); }
bool ForCpu(const Lowering& l, UOp*) {
  return l.generator != nullptr && Can(l).lanes && !Can(l).text;  // programs for several devices begin without one
}
bool ForLoops(const Lowering& l) { return Can(l).lanes || (Can(l).work_items && !Can(l).text); }
bool HasLanguage(const Lowering& l, absl::string_view name) {
  const std::vector<absl::string_view> all = l.generator->languages();
  return std::find(all.begin(), all.end(), name) != all.end();
}

constexpr Condition kAlways = {""};
constexpr Condition kCpu = {"CPUs", ForCpu};
constexpr Condition kWorkItems = {"targets with work items", [](const Lowering& l, UOp*) { return Can(l).work_items; }};
constexpr Condition kNoWorkItems = {"targets without work items",
                                    [](const Lowering& l, UOp*) { return !Can(l).work_items; }};
// A segment of a program for several devices has no message of its own.
constexpr Condition kVariables = {"programs with variables, for one device", [](const Lowering& l, UOp*) {
                                    return l.wire != nullptr && !l.function.variables.empty();
                                  }};
constexpr Condition kText = {"source for people", [](const Lowering& l, UOp*) { return Can(l).text; }};
constexpr Condition kNotRequested = {"kernels without OptOps", [](const Lowering& l, UOp*) { return !IsRequested(l); }};
constexpr Condition kRequested = {"kernels with OptOps; CPUs and GPUs",
                                  [](const Lowering& l, UOp*) { return IsRequested(l) && ForLoops(l); }};
constexpr Condition kContraction = {"CompileOptions.contraction",
                                    [](const Lowering& l, UOp*) { return l.options.contraction; }};
constexpr Condition kScan = {"CPUs; kernels without OptOps",
                             [](const Lowering& l, UOp* kernel) { return !IsRequested(l) && ForCpu(l, kernel); }};
constexpr Condition kChosen = {"CPUs and GPUs; kernels without OptOps that are no scan", [](const Lowering& l, UOp*) {
                                 return !IsRequested(l) && ForLoops(l) && !l.body.scanned;
                               }};
constexpr Condition kConstants = {
    "CPUs; kernels that read what stays the same from run to run",
    [](const Lowering& l, UOp* kernel) { return ForCpu(l, kernel) && HasConstants(kernel); }};
constexpr Condition kDots = {"CPUs with instructions for dot products", [](const Lowering& l, UOp* kernel) {
                               return ForCpu(l, kernel) && DotUnitsOf(*l.body.target).lanes > 0;
                             }};
constexpr Condition kMatrixUnit = {"CPUs whose cores have a matrix unit", [](const Lowering& l, UOp* kernel) {
                                     return ForCpu(l, kernel) && HasMatrixUnit(l);
                                   }};
constexpr Condition kLlvm = {"CPUs and GPUs", [](const Lowering& l, UOp*) { return HasLanguage(l, "llvm"); }};
constexpr Condition kSource = {"GPUs, source for people",
                               [](const Lowering& l, UOp*) { return HasLanguage(l, "source"); }};
constexpr Condition kAssembly = {"an observer that wants it", [](const Lowering& l, UOp*) {
                                   return l.observer != nullptr && l.observer->WantsAssembly();
                                 }};
constexpr Condition kObject = {"unless an observer wants none", [](const Lowering& l, UOp*) {
                                 return l.observer == nullptr || l.observer->WantsObject();
                               }};

// -- What is legal where that depends on the program or on the target

// A client's kernel may have in it whatever a program has.
const Spec* Calls(const Lowering& l) { return l.function.bodies.empty() ? &kCallSpec : &kCoreSpec; }
const Spec* Listed(const Lowering& l) {
  return Can(l).text ? &kCoreSpec : Can(l).work_items ? &kNamedSpec : &kGroupedSpec;
}

// -- How a row says what it runs

// A pass that needs nothing but the graph.
template <UOp* (*kPass)(Graph&, UOp*)>
absl::StatusOr<UOp*> Plain(Lowering& l, UOp* root) {
  return kPass(l.graph, root);
}
// One that makes no graph, and has nothing to do but to show something.
absl::StatusOr<UOp*> AsItIs(Lowering&, UOp* root) { return root; }

// clang-format off: a row reads as a row.
std::vector<StagePasses> Table() {
  return {
    // name, optional or not, when, legal before, legal after, what it does, how

    // ---- A program

    {Stage::kImport, "import", "a graph as a client sends it", false, {
      {"normalise", kRequired, kAlways, nullptr, &kCoreSpec,
       "reads a graph, checks it, and writes it in core ops",
       [](Lowering& l, UOp*) { return Normalise(l); }},
    }},
    // Beyond this point, only core ops, and every node has its derived properties.

    {Stage::kCallify, "callify", "a graph of tensors", false, {
      {"callify", kRequired, kAlways, &kTensorSpec, &kTensorSpec,
       "a request's graph -> SINK of STOREs",
       CallifyInto},
    }},
    // Beyond this point, no concrete buffer of the caller's.

    {Stage::kRangeify, "rangeify", "a SINK of STOREs", false, {
      {"resolve invalid", kRequired, kAlways, &kTensorSpec, &kTensorSpec,
       "what may be Invalid -> values, and where they count",
       Plain<ResolveInvalid>},
      // Beyond this point, nothing is Invalid: any value may be stored and read again.
      {"take marks", kRequired, kAlways, &kTensorSpec, &kTensorSpec,
       "takes off the marks where reused functions end, and keeps them",
       [](Lowering& l, UOp* sink) -> absl::StatusOr<UOp*> { return TakeMarks(l.graph, sink, l.marked); }},
      {"split reductions", kRequired, kAlways, &kTensorSpec, &kTensorSpec,
       "large reductions to few values, in two steps",
       [](Lowering& l, UOp* sink) -> absl::StatusOr<UOp*> { return SplitReductions(l.graph, sink, l.marked); }},
      {"choose buffers", kRequired, kAlways, nullptr, nullptr,
       "which values get a buffer, and so which kernels there are",
       [](Lowering& l, UOp* sink) -> absl::StatusOr<UOp*> {
         l.realized = ChooseRealized(l.graph, sink, StoreOrder(sink), l.marked);
         return sink;
       }, RealizedText, "txt"},
      // Without it, all values lie as their shapes say, and products read images under gates.
      {"choose layouts", kOptional, kCpu, &kTensorSpec, &kTensorSpec,
       "in which order axes of values lie in memory; what is padded or kept narrow there",
       ChooseLayoutsInto, LayoutsText, "txt"},
      {"rangeify", kRequired, kAlways, &kTensorSpec, &kCallSpec,
       "SINK of STOREs -> LINEAR of CALLs of kernels",
       [](Lowering& l, UOp* sink) { return Rangeify(l.graph, sink, l.function.bodies, l.realized, l.layouts); },
       nullptr, "uop", Calls},
      {"batching", kRequired, kVariables, nullptr, nullptr,
       "whether rows of several callers may be run as one, for each variable",
       [](Lowering& l, UOp* calls) -> absl::StatusOr<UOp*> {
         l.batching = BatchingOf(l.graph, l.function, calls);
         return calls;
       }, [](const Lowering& l) { return BatchingText(l.batching); }, "txt"},
    }},
    // Beyond this point, no movement op exists, and the list of kernels is fixed.

    {Stage::kEntry, "entry", "a kernel or a program, as a client sends it", false, {
      {"enter kernel", kRequired, kAlways, &kCoreSpec, &kCoreSpec,
       "a client's kernel or program -> LINEAR of one CALL of it",
       [](Lowering& l, UOp* body) { return EnterKernel(l.graph, body, l.function); }},
    }},

    {Stage::kCalls, "calls", "a LINEAR of CALLs", false, {
      // Needs the list alone; without it, the same kernels run one after the other.
      {"chain kernels", kOptional, kCpu, &kCoreSpec, &kCoreSpec,
       "kernels that pass on what no cache can hold -> one, slice by slice",
       [](Lowering& l, UOp* calls) -> absl::StatusOr<UOp*> {
         return ChainKernels(l.graph, calls, l.results, l.target);
       }},
      // Beyond this point, there is a list of calls of kernels, each a SINK of loops or a LINEAR of instructions.
      {"memory plan", kRequired, kAlways, nullptr, nullptr,
       "where each buffer lies in one arena",
       [](Lowering& l, UOp* calls) -> absl::StatusOr<UOp*> {
         l.plan = PlanMemory(calls, l.results);
         return calls;
       }, MemoryPlanText, "txt"},
    }},
    // Beyond this point, nothing is allocated while the program runs.

    // ---- Each kernel of loops

    {Stage::kLoops, "loops", "a kernel: SINK of loops", true, {
      {"simplify ranges", kOptional, kNotRequested, &kKernelSpec, &kKernelSpec,
       "a kernel -> the same with neighbouring loops merged",
       Plain<SimplifyRanges>},
      {"decompose", kRequired, kAlways, &kKernelSpec, &kKernelSpec,
       "a kernel -> the same in ops that the target has",
       [](Lowering& l, UOp* kernel) -> absl::StatusOr<UOp*> {
         return Decompose(l.graph, kernel, l.generator->native_ops());
       }},
      // Beyond this point, only ops that the target has, in dtypes it computes in.
      {"contract products", kOptional, kContraction, &kKernelSpec, &kKernelSpec,
       "products of 16-bit floats that are summed in float32 -> not rounded before the sum",
       Plain<ContractProducts>},
      {"scan", kOptional, kScan, &kKernelSpec, &kScheduledSpec,
       "a running sum -> the same in linear work; any other kernel as it is",
       ScanLoops},
      {"requested opts", kRequired, kRequested, &kScheduledSpec, &kScheduledSpec,
       "a kernel -> the same with the OptOps that it asks for",
       ApplyRequestedOpts},
      {"optimize", kOptional, kChosen, &kScheduledSpec, &kScheduledSpec,
       "a kernel -> the same with its loops split for lanes, tiles and threads",
       ApplyChosenOpts},
      {"hoist copies", kOptional, kConstants, &kScheduledSpec, &kScheduledSpec,
       "copies of what stays the same -> made once for all runs",
       [](Lowering& l, UOp* kernel) -> absl::StatusOr<UOp*> {
         return HoistCopies(l.graph, kernel, l.body.slots, l.body.hoisted);
       }},
    }},
    // Beyond this point, the loop nest is fixed.

    {Stage::kAccumulators, "accumulators", "a kernel whose loops are fixed", true, {
      {"bounds", kRequired, kAlways, &kScheduledSpec, &kScheduledSpec,
       "a kernel -> the same with unproved accesses gated",
       [](Lowering& l, UOp* kernel) { return ProveBounds(l.graph, kernel, l.options.strict, &l.body.gates); }},
      // Beyond this point, every access is inside its buffer wherever its gate holds.
      {"work items", kRequired, kWorkItems, &kScheduledSpec, &kSharedOutSpec,
       "parallel loops -> coordinates of work items",
       ToWorkItems},
      {"core products", kOptional, kMatrixUnit, &kSharedOutSpec, &kSharedOutSpec,
       "products of bytes and bfloat16, tile by tile",
       CoreProducts},
      {"expand", kRequired, kAlways, &kSharedOutSpec, &kExpandedSpec,
       "a kernel -> the same with lanes for UPCAST and UNROLL loops",
       Plain<Expand>},
      // Beyond this point, lanes are shapes.
      {"dots", kOptional, kDots, &kExpandedSpec, &kExpandedSpec,
       "products of bytes and bfloat16, several to a lane",
       [](Lowering& l, UOp* kernel) -> absl::StatusOr<UOp*> {
         return SelectDots(l.graph, kernel, DotUnitsOf(*l.body.target));
       }},
      {"reduce to acc", kRequired, kAlways, &kExpandedSpec, &kAccumulatingSpec,
       "an expanded kernel -> the same with accumulators",
       Plain<ReduceToAcc>},
      // Beyond this point, no REDUCE over a loop.
      {"keep row", kOptional, kCpu, &kAccumulatingSpec, &kAccumulatingSpec,
       "what two loops over a row both compute -> kept in the row that is written",
       Plain<KeepRow>},
    }},

    {Stage::kNests, "nests", "a chain, whose nests are lowered to accumulators", false, {
      {"chain nests", kRequired, kAlways, nullptr, &kAccumulatingSpec,
       "the nests of a chain -> one loop over its slices",
       [](Lowering& l, UOp*) -> absl::StatusOr<UOp*> { return l.body.nests->Whole(); }},
    }},

    {Stage::kInstructions, "instructions", "a kernel with accumulators", true, {
      {"linearize", kRequired, kAlways, &kAccumulatingSpec, &kLinearSpec,
       "a kernel -> LINEAR of instructions",
       Plain<Linearize>},
      // Beyond this point, the order of instructions is fixed.
      {"select", kRequired, kText, &kLinearSpec, &kCoreSpec,
       "instructions -> those that the language has words for",
       [](Lowering& l, UOp* linear) { return l.generator->Select(l.graph, linear); }},
    }},

    // ---- Each program written by hand

    {Stage::kProgram, "program", "a program: LINEAR of instructions, as a client sends it", false, {
      {"name values", kRequired, kAlways, &kProgramSpec, &kNamedSpec,
       "a program -> effects and reads in order, over arithmetic",
       [](Lowering& l, UOp* linear) {
         return NameValues(l.graph, linear, [&l](const WmmaArg& arg) { return l.generator->HasWmma(arg); });
       }},
      // Beyond this point, every value has one place where it is made; only effects and reads are listed.
      {"decompose", kRequired, kAlways, &kNamedSpec, &kNamedSpec,
       "a program -> the same in ops that the target has",
       [](Lowering& l, UOp* linear) -> absl::StatusOr<UOp*> { return DecomposeList(l, linear); }},
      // Beyond this point, only ops that the target has, in dtypes it computes in.
      {"bounds", kRequired, kAlways, &kNamedSpec, &kNamedSpec,
       "a program -> the same with unproved accesses gated",
       [](Lowering& l, UOp* linear) { return ProveProgramBounds(l.graph, linear, l.options.strict, &l.body.gates); }},
      // Beyond this point, every access is inside its storage wherever its gate holds.
      {"work groups", kRequired, kNoWorkItems, &kNamedSpec, &kGroupedSpec,
       "groups and items -> loops in which nothing waits",
       [](Lowering& l, UOp* linear) {
         return LowerWorkGroups(l.graph, linear, Can(l).text ? Zeros::kDeclared : Zeros::kStored);
       }},
      // Beyond this point, groups and items are the target's own, or loops in which nothing waits for anything.
      {"select values", kRequired, kAlways, nullptr, &kGroupedSpec,
       "arithmetic -> values that the target has",
       [](Lowering& l, UOp* linear) { return l.generator->SelectValues(l.graph, linear); }, nullptr, "uop", Listed},
      // Beyond this point, only values that the target has.
      {"place", kRequired, kAlways, nullptr, &kGroupedSpec,
       "arithmetic -> listed before the first instruction that needs it",
       [](Lowering& l, UOp* linear) { return PlaceValues(l.graph, DecomposeList(l, linear)); }, nullptr, "uop", Listed},
      // Beyond this point, the order of instructions is fixed.
      {"select", kRequired, kAlways, nullptr, &kGroupedSpec,
       "instructions -> those that the target has words for",
       [](Lowering& l, UOp* linear) { return l.generator->SelectListed(l.graph, linear, l.body.client); }, nullptr,
       "uop", Listed},
    }},
    // Beyond this point, only what the target has words for.

    // ---- All kernels together

    {Stage::kCode, "code", "all kernels, in the code generator", false, {
      {"llvm", kRequired, kLlvm, nullptr, nullptr,
       "LLVM's IR, as instructions are selected from it",
       AsItIs, [](const Lowering& l) { return l.generator->Source("llvm"); }, "ll"},
      {"source", kRequired, kSource, nullptr, nullptr,
       "text: PTX, AMD's assembly, C, CUDA, HIP, OpenCL or Metal",
       AsItIs, [](const Lowering& l) { return l.generator->Source("source"); }, "txt"},
      {"assembly", kRequired, kAssembly, nullptr, nullptr,
       "the machine's assembly language",
       AsItIs, [](const Lowering& l) { return l.generator->Assembly(); }, "s"},
      {"object", kRequired, kObject, nullptr, nullptr,
       "the object that a device loads",
       [](Lowering& l, UOp* calls) -> absl::StatusOr<UOp*> {
         KILN_ASSIGN_OR_RETURN(*l.executable.mutable_object(), l.generator->Object());
         return calls;
       }, [](const Lowering& l) { return absl::StrCat(l.executable.object().size(), " bytes\n"); }, "o"},
    }},

    // ---- A program on several devices, before all this

    {Stage::kImportShards, "import_shards", "a graph with tuples of devices, as a client sends it", false, {
      {"normalise", kRequired, kAlways, nullptr, &kCoreSpec,
       "reads a graph, checks it, and writes it in core ops",
       [](Lowering& l, UOp*) { return NormaliseShards(l); }},
    }},
    // Beyond this point, only core ops, and every node has its device and shard axis.

    {Stage::kShares, "shares", "a graph of values on tuples of devices", false, {
      {"shares", kRequired, kAlways, nullptr, nullptr,
       "what one device computes, and what it gets from others",
       [](Lowering& l, UOp* root) -> absl::StatusOr<UOp*> {
         KILN_ASSIGN_OR_RETURN(l.shares, TakeShares(l.graph, root));
         return root;
       }, [](const Lowering& l) { return absl::StrCat(l.shares.transfers.size(), " transfers\n"); }, "txt"},
    }},
    // Beyond this point, every value is one device's share, and only transfers move any.

    {Stage::kSegments, "segments", "shares, each at a level", false, {
      {"segments", kRequired, kAlways, nullptr, nullptr,
       "shares -> programs for one device, and transfers, in order",
       [](Lowering& l, UOp* root) -> absl::StatusOr<UOp*> {
         l.cut = CutSegments(l.graph, l.shares, *l.levels);
         return root;
       }, [](const Lowering& l) { return ShardText(l.shares, l.cut); }, "txt"},
    }},
    // Beyond this point, each segment is a program for one device, and the steps have an order.
  };
}
// clang-format on

}  // namespace

const std::vector<StagePasses>& AllPasses() {
  static const auto& table = *new std::vector<StagePasses>(Table());
  return table;
}

const StagePasses& PassesOf(Stage stage) {
  const StagePasses& found = AllPasses()[static_cast<size_t>(stage)];
  KILN_CHECK(found.stage == stage);
  return found;
}

const Pass* FindPass(absl::string_view name) {
  for (const StagePasses& stage : AllPasses()) {
    for (const Pass& pass : stage.passes) {
      if (pass.name == name) return &pass;
    }
  }
  return nullptr;
}

absl::Status CheckDisabled(absl::Span<const std::string> names) {
  std::vector<absl::string_view> optional;
  for (const StagePasses& stage : AllPasses()) {
    for (const Pass& pass : stage.passes) {
      if (pass.need == Need::kOptional) optional.push_back(pass.name);
    }
  }
  for (const std::string& name : names) {
    if (std::find(optional.begin(), optional.end(), name) != optional.end()) continue;
    const absl::string_view why =
        FindPass(name) == nullptr ? "there is no pass called so" : "no program compiles without it";
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("\"", name, "\" cannot be disabled: ", why,
                                                    "; these can: ", absl::StrJoin(optional, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace kiln::compiler
