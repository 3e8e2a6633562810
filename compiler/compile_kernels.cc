#include "compiler/compile_kernels.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/cost.h"
#include "compiler/lower_kernel.h"
#include "compiler/lower_program.h"

namespace kiln::compiler {
namespace {

// How much more a turn of a program may do, at most, than a turn of a kernel.
constexpr uint64_t kReadBounds = 10;

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

// Lowers one body, hands it to the generator, and says what it costs.
absl::Status CompileBody(Graph& graph, Pipeline& pipeline, UOp* body, const v1::Target& target, const Options& options,
                         CodeGenerator& generator, v1::Kernel& made) {
  const bool text = generator.abilities().text;
  if (body->op() == Op::LINEAR) {
    KILN_ASSIGN_OR_RETURN(const LoweredProgram lowered, LowerProgram(graph, pipeline, body, generator, options));
    *made.mutable_cost() = lowered.cost;
    made.set_iterations(lowered.iterations);
    made.set_gates(lowered.gates);
    // Before any code is made of it.
    KILN_RETURN_IF_ERROR(CheckLimit("operations", options.limits.max_work, lowered.cost.flops()));
    return generator.AddProgram(lowered.linear, made.symbol());
  }
  KILN_ASSIGN_OR_RETURN(const LoweredKernel lowered, LowerKernel(graph, pipeline, body, target, generator, options,
                                                                 ScheduleFor(made.symbol(), options)));
  UOp* linear = lowered.linear;
  made.set_gates(lowered.gates);
  made.set_schedule(lowered.schedule);
  if (text) {
    KILN_ASSIGN_OR_RETURN(
        linear, pipeline.Run("select", linear, kCoreSpec, [&](UOp* list) { return generator.Select(graph, list); }));
  }
  // Beyond this point, only what the target has words for.
  *made.mutable_cost() = CostOf(graph, body);
  made.set_iterations(IterationsOf(linear));
  return generator.AddKernel(linear, made.symbol());
}

}  // namespace

absl::Status CheckLimit(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  if (used <= limit_value) return absl::OkStatus();
  return TooLarge(limit, limit_value, used,
                  absl::StrCat("the program has ", used, " ", limit, "; this server takes at most ", limit_value));
}

absl::StatusOr<std::vector<uint32_t>> CompileKernels(Graph& graph, Pipeline& pipeline, const UOp* calls,
                                                     const v1::Target& target, const Options& options,
                                                     CodeGenerator& generator, v1::Executable& executable) {
  absl::flat_hash_map<UOp*, uint32_t> numbers;
  std::vector<uint32_t> kernel_of;
  KILN_RETURN_IF_ERROR(CheckLimit("kernels", options.limits.max_kernels, calls->src().size()));
  v1::Cost total;
  for (const UOp* call : calls->src()) {
    if (call->src(0)->op() == Op::SINK) AddCost(CostOf(graph, call->src(0)), total);
  }
  // Before any of them is lowered.
  KILN_RETURN_IF_ERROR(CheckLimit("operations", options.limits.max_work, total.flops()));
  for (const UOp* call : calls->src()) {
    UOp* body = call->src(0);
    const auto [found, is_new] = numbers.emplace(body, executable.kernels_size());
    kernel_of.push_back(found->second);
    if (is_new) {
      v1::Kernel* made = executable.add_kernels();
      made->set_name(NameOf(body));
      // In a text for people, a program written by hand that stands alone has the name it was given.
      const bool own_name =
          generator.abilities().text && body->op() == Op::LINEAR && !made->name().empty() && calls->src().size() == 1;
      made->set_symbol(SymbolFor(own_name ? made->name() : absl::StrCat("k", found->second, "_", made->name())));
      pipeline.set_kernel(made->symbol());
      KILN_RETURN_IF_ERROR(CompileBody(graph, pipeline, body, target, options, generator, *made));
      const uint64_t turns = std::max<uint64_t>(1, made->iterations());
      // A bound that a program reads counts as the most that it could be; mostly it is far less.
      const uint64_t most = options.limits.max_turn_work * (body->op() == Op::LINEAR ? kReadBounds : 1);
      KILN_RETURN_IF_ERROR(
          CheckLimit("operations in one turn of a kernel's outermost loop", most, made->cost().flops() / turns));
      made->set_grain(GrainOf(made->cost(), turns));
    }
    if (body->op() == Op::LINEAR) AddCost(executable.kernels(static_cast<int>(found->second)).cost(), total);
  }
  KILN_RETURN_IF_ERROR(CheckLimit("operations", options.limits.max_work, total.flops()));
  *executable.mutable_cost() = total;
  pipeline.set_kernel("");
  return kernel_of;
}

}  // namespace kiln::compiler
