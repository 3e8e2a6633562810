#include "compiler/lower/compile_kernels.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/blake3.h"
#include "base/error.h"
#include "compiler/import/wire.h"
#include "compiler/lower/cost.h"
#include "compiler/lower/lower_kernel.h"
#include "compiler/pass/pipeline.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/stop_points.h"

namespace kiln::compiler {
namespace {

// How much more a work item of a program may do, at most, than one of a kernel.
constexpr uint64_t kReadBounds = 10;

constexpr uint64_t kNsOfASecond = 1'000'000'000;

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a > ~b ? ~uint64_t{0} : a + b; }

// What no identifier may hold becomes _.
std::string SymbolFor(absl::string_view name) {
  std::string symbol;
  for (char c : name.substr(0, 64)) symbol.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
  return absl::ascii_isdigit(static_cast<unsigned char>(symbol[0])) ? absl::StrCat("_", symbol) : symbol;
}

void AddCost(const v1::Cost& cost, v1::Cost& total) {
  total.set_flops(SaturatingAdd(total.flops(), cost.flops()));
  total.set_bytes_read(SaturatingAdd(total.bytes_read(), cost.bytes_read()));
  total.set_bytes_written(SaturatingAdd(total.bytes_written(), cost.bytes_written()));
  total.set_run_ns(SaturatingAdd(total.run_ns(), cost.run_ns()));
  total.set_varies(total.varies() || cost.varies());
}

std::string NameOf(const UOp* body) {
  const auto* arg = std::get_if<KernelArg>(&body->arg());
  return arg == nullptr ? "" : arg->name;
}

// What a search found for the kernel, or null.
const std::string* ScheduleFor(const std::string& symbol, const Options& options) {
  if (options.schedules == nullptr) return nullptr;
  const auto found = options.schedules->find(symbol);
  return found == options.schedules->end() ? nullptr : &found->second;
}

// The places of a call's arguments that are constants.
std::vector<uint32_t> ConstantSlots(const UOp* call, const absl::flat_hash_set<const UOp*>& constants) {
  std::vector<uint32_t> slots;
  const absl::Span<UOp* const> arguments = call->src().subspan(1);
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (constants.contains(arguments[i])) slots.push_back(i);
  }
  return slots;
}

absl::Status SetLaunch(CodeGenerator& generator, const UOp* linear, v1::Kernel& made) {
  KILN_ASSIGN_OR_RETURN(v1::Launch launch, generator.LaunchOf(linear));
  if (launch.groups_size() > 0) *made.mutable_launch() = std::move(launch);
  return absl::OkStatus();
}

// How many parts of a kernel are on their way by themselves: iterations of its outermost loop, or work items.
uint64_t PartsOf(const v1::Kernel& kernel) {
  uint64_t parts = std::max<uint64_t>(1, kernel.iterations());
  for (const auto* sizes : {&kernel.launch().groups(), &kernel.launch().items()}) {
    for (const uint64_t size : *sizes) parts = parts > ~uint64_t{0} / size ? ~uint64_t{0} : parts * size;
  }
  return parts;
}

// Whether its code looks at a stop (target/llvm/loop_emitter.h).
bool StopsOf(const v1::Target& target, const UOp* linear) {
  return target.kind() == v1::Target::CPU && !FindStopPoints(linear).empty();
}

// Of one run.
absl::Status CheckWork(const Limits& limits, const v1::Cost& cost) {
  KILN_RETURN_IF_ERROR(CheckLimit("operations", limits.max_work, cost.flops()));
  if (cost.run_ns() / kNsOfASecond < limits.max_run_seconds) return absl::OkStatus();
  const uint64_t seconds = cost.run_ns() / kNsOfASecond;
  return TooLarge("seconds of one run", limits.max_run_seconds, seconds,
                  absl::StrCat("a run of the program is estimated to take ", seconds,
                               " seconds on this device; this server takes less than ", limits.max_run_seconds));
}

// Lowers one body, hands it to the generator, and says what it costs.
absl::Status CompileBody(Lowering& lowering, UOp* root, v1::Kernel& made) {
  CodeGenerator& generator = *lowering.generator;
  const bool listed = root->op() == Op::LINEAR;
  if (listed) {
    lowering.body.client = root;
    KILN_RETURN_IF_ERROR(VerifyProgram(root, lowering.options.limits, &lowering.graph).status());
    // Beyond this point, it is harmless in shape; whether it stays inside its buffers is not known yet.
  }
  KILN_ASSIGN_OR_RETURN(UOp * linear, listed ? RunStage(lowering, Stage::kProgram, root) : LowerKernel(lowering, root));
  // Beyond this point, only what the target has words for.
  *made.mutable_cost() = listed ? CostOfProgram(linear) : CostOf(lowering.graph, root);
  made.set_iterations(IterationsOf(linear));
  made.set_gates(lowering.body.gates);
  made.set_schedule(lowering.body.opts);
  made.set_stops(StopsOf(lowering.target, linear));
  KILN_RETURN_IF_ERROR(SetLaunch(generator, linear, made));
  ShareOut(lowering.target, PartsOf(made), listed, *made.mutable_cost());
  // Before any code is made of it.
  if (listed) KILN_RETURN_IF_ERROR(CheckWork(lowering.options.limits, made.cost()));
  return listed ? generator.AddProgram(linear, made.symbol()) : generator.AddKernel(linear, made.symbol());
}

// The kernels that prepare something, each different one once.
class Preparers {
 public:
  explicit Preparers(Lowering& lowering) : lowering_(lowering) {}

  absl::StatusOr<KernelPreparation> Compile(const Hoisted& hoisted) {
    v1::Executable& executable = lowering_.executable;
    const auto [found, is_new] = numbers_.emplace(hoisted.sink, static_cast<uint32_t>(executable.kernels_size()));
    if (is_new) {
      v1::Kernel* made = executable.add_kernels();
      made->set_name(NameOf(hoisted.sink));
      made->set_symbol(absl::StrCat("p", numbers_.size() - 1, "_", made->name()));
      lowering_.body = Body();
      lowering_.body.symbol = made->symbol();
      lowering_.body.target = &executable.target();
      KILN_ASSIGN_OR_RETURN(UOp * linear, LowerScheduled(lowering_, hoisted.sink));
      made->set_gates(lowering_.body.gates);
      *made->mutable_cost() = CostOf(lowering_.graph, hoisted.sink);
      made->set_iterations(IterationsOf(linear));
      made->set_stops(StopsOf(lowering_.target, linear));
      made->set_grain(GrainOf(made->cost(), std::max<uint64_t>(1, made->iterations())));
      KILN_RETURN_IF_ERROR(lowering_.generator->AddKernel(linear, made->symbol()));
    }
    return KernelPreparation{hoisted.slot, found->second, static_cast<uint64_t>(hoisted.bytes), KeyOf(hoisted.sink)};
  }

 private:
  // Of all that the values depend on.
  std::string KeyOf(UOp* sink) const {
    const Options& options = lowering_.options;
    return std::string(
        Blake3Of(absl::StrCat(ToText(sink), " contraction=", options.contraction, " fast_math=", options.fast_math))
            .view());
  }

  Lowering& lowering_;
  absl::flat_hash_map<UOp*, uint32_t> numbers_;
};

}  // namespace

absl::Status CheckLimit(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  if (used <= limit_value) return absl::OkStatus();
  return TooLarge(limit, limit_value, used,
                  absl::StrCat("the program has ", used, " ", limit, "; this server takes at most ", limit_value));
}

absl::StatusOr<std::vector<CompiledCall>> CompileKernels(Lowering& lowering, const UOp* calls) {
  Graph& graph = lowering.graph;
  const Options& options = lowering.options;
  const v1::Target& target = lowering.target;
  const CodeGenerator& generator = *lowering.generator;
  v1::Executable& executable = lowering.executable;
  absl::flat_hash_map<UOp*, CompiledCall> done;
  // What a search knows kernels by (Options::schedules) does not depend on which parameters are constant.
  absl::flat_hash_map<UOp*, uint32_t> numbers;
  std::vector<CompiledCall> compiled;
  Preparers preparers(lowering);
  KILN_RETURN_IF_ERROR(CheckLimit("kernels", options.limits.max_kernels, calls->src().size()));
  v1::Cost total;
  for (const UOp* call : calls->src()) {
    if (call->src(0)->op() != Op::SINK) continue;
    v1::Cost cost = CostOf(graph, call->src(0));
    ShareOut(target, ~uint64_t{0}, /*listed=*/false, cost);
    AddCost(cost, total);
  }
  // Before any of them is lowered; how far each is shared out is not known yet, and counts as the most.
  KILN_RETURN_IF_ERROR(CheckWork(options.limits, total));
  total = v1::Cost();
  for (const UOp* call : calls->src()) {
    UOp* body = call->src(0);
    const auto [numbered, is_first] = numbers.emplace(body, numbers.size());
    if (const std::vector<uint32_t> slots = ConstantSlots(call, lowering.constants);
        body->op() == Op::SINK && !slots.empty())
      body = MarkConstants(graph, body, slots);
    const auto [found, is_new] = done.try_emplace(body);
    if (is_new) {
      found->second.kernel = static_cast<uint32_t>(executable.kernels_size());
      v1::Kernel* made = executable.add_kernels();
      made->set_name(NameOf(body));
      // In a text for people, a program written by hand that stands alone has the name it was given.
      const bool own_name = generator.abilities().text && body->op() == Op::LINEAR && !made->name().empty() &&
                            calls->src().size() == 1 && generator.MayDefine(SymbolFor(made->name()));
      const std::string known =
          SymbolFor(own_name ? made->name() : absl::StrCat("k", numbered->second, "_", made->name()));
      made->set_symbol(is_first ? known : absl::StrCat(known, "_", found->second.kernel));
      lowering.body = Body();
      lowering.body.symbol = made->symbol();
      lowering.body.slots = static_cast<uint32_t>(call->src().size() - 1);
      lowering.body.target = &target;
      lowering.body.schedule = ScheduleFor(known, options);
      KILN_RETURN_IF_ERROR(CompileBody(lowering, body, *made));
      const std::vector<Hoisted> hoisted = std::move(lowering.body.hoisted);
      const uint64_t parts = PartsOf(*made);
      if (target.kind() == v1::Target::NVPTX || target.kind() == v1::Target::AMDGPU) {
        // A bound that a program reads counts as the most that it could be; mostly it is far less.
        const uint64_t max_work = options.limits.max_item_work * (body->op() == Op::LINEAR ? kReadBounds : 1);
        KILN_RETURN_IF_ERROR(CheckLimit("operations of one work item", max_work, made->cost().flops() / parts));
      }
      made->set_grain(GrainOf(made->cost(), parts));
      for (const Hoisted& copy : hoisted) {
        KILN_ASSIGN_OR_RETURN(found->second.preparations.emplace_back(), preparers.Compile(copy));
      }
    }
    compiled.push_back(found->second);
    AddCost(executable.kernels(static_cast<int>(found->second.kernel)).cost(), total);
  }
  KILN_RETURN_IF_ERROR(CheckWork(options.limits, total));
  *executable.mutable_cost() = total;
  lowering.body = Body();
  return compiled;
}

}  // namespace kiln::compiler
