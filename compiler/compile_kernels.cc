#include "compiler/compile_kernels.h"

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

uint64_t IterationsOf(const UOp* linear) {
  for (const UOp* uop : linear->src()) {
    if (uop->op() == Op::RANGE && uop->arg_as<RangeArg>().type == AxisType::kThread)
      return static_cast<uint64_t>(uop->src(0)->const_int());
  }
  return 1;
}

// What no identifier may hold becomes _.
std::string SymbolFor(absl::string_view name) {
  std::string symbol;
  for (char c : name) symbol.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
  return absl::ascii_isdigit(static_cast<unsigned char>(symbol[0])) ? absl::StrCat("_", symbol) : symbol;
}

void AddCost(const v1::Cost& cost, v1::Cost& total) {
  total.set_flops(total.flops() + cost.flops());
  total.set_bytes_read(total.bytes_read() + cost.bytes_read());
  total.set_bytes_written(total.bytes_written() + cost.bytes_written());
}

}  // namespace

absl::Status CheckLimit(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  if (used <= limit_value) return absl::OkStatus();
  v1::ErrorDetail detail;
  detail.set_code(v1::GRAPH_TOO_LARGE);
  detail.set_limit(std::string(limit));
  detail.set_limit_value(limit_value);
  detail.set_used(used);
  return MakeError(std::move(detail),
                   absl::StrCat("the program has ", used, " ", limit, "; this server takes at most ", limit_value));
}

absl::StatusOr<std::vector<uint32_t>> CompileKernels(Graph& graph, Pipeline& pipeline, const UOp* calls,
                                                     const v1::Target& target, const Options& options,
                                                     CodeGenerator& generator, v1::Executable& executable) {
  absl::flat_hash_map<UOp*, uint32_t> numbers;
  std::vector<uint32_t> kernel_of;
  KILN_RETURN_IF_ERROR(CheckLimit("kernels", options.limits.max_kernels, calls->src().size()));
  v1::Cost total;
  for (const UOp* call : calls->src()) AddCost(CostOf(call->src(0)), total);
  KILN_RETURN_IF_ERROR(CheckLimit("operations", options.limits.max_work, total.flops()));
  *executable.mutable_cost() = total;
  for (const UOp* call : calls->src()) {
    UOp* kernel = call->src(0);
    const auto [found, is_new] = numbers.emplace(kernel, executable.kernels_size());
    kernel_of.push_back(found->second);
    if (is_new) {
      v1::Kernel* made = executable.add_kernels();
      made->set_name(kernel->arg_as<KernelArg>().name);
      // In a text for people, a program written by hand has the name it was given.
      const bool own_name = generator.abilities().programs && kernel->op() == Op::LINEAR && !made->name().empty();
      made->set_symbol(SymbolFor(own_name ? made->name() : absl::StrCat("k", found->second, "_", made->name())));
      pipeline.set_kernel(made->symbol());
      UOp* linear = kernel;
      if (kernel->op() == Op::LINEAR && !generator.abilities().programs) {
        KILN_ASSIGN_OR_RETURN(linear, LowerProgram(graph, pipeline, kernel, options));
      } else if (kernel->op() != Op::LINEAR) {
        KILN_ASSIGN_OR_RETURN(linear, LowerKernel(graph, pipeline, kernel, target, generator, options));
      }
      if (generator.abilities().programs) {
        KILN_ASSIGN_OR_RETURN(linear, pipeline.Run("select", linear, kCoreSpec,
                                                   [&](UOp* list) { return generator.Select(graph, list); }));
      }
      // Beyond this point, only what the target has words for.
      KILN_RETURN_IF_ERROR(generator.AddKernel(linear, made->symbol()));
      *made->mutable_cost() = CostOf(kernel);
      made->set_iterations(IterationsOf(linear));
      KILN_RETURN_IF_ERROR(CheckLimit("operations in one turn of a kernel's outermost loop",
                                      options.limits.max_turn_work, made->cost().flops() / made->iterations()));
      made->set_grain(GrainOf(made->cost(), made->iterations()));
    }
  }
  pipeline.set_kernel("");
  return kernel_of;
}

}  // namespace kiln::compiler
