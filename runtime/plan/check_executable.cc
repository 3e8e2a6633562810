#include "runtime/plan/check_executable.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"
#include "runtime/plan/check_tensor_maps.h"
#include "runtime/plan/sizes.h"

namespace kiln::runtime {
namespace {

// No size may come near where sums of a few of them would wrap.
constexpr uint64_t kMaxBytes = uint64_t{1} << 56;
constexpr size_t kKeyBytes = 32;
constexpr uint64_t kMaxIterations = std::numeric_limits<int64_t>::max() / 2;

template <typename... Parts>
absl::Status Bad(const std::string& field, const Parts&... parts) {
  v1::ErrorDetail detail;
  detail.set_code(v1::INTERNAL_FAULT);
  detail.set_field(field);
  return MakeError(std::move(detail), absl::StrCat("executable.", field, ": ", parts...));
}

// "steps[3].operands[1]" and the like.
std::string Field(absl::string_view name, int index, absl::string_view rest = "") {
  return absl::StrCat(name, "[", index, "]", rest);
}

absl::Status CheckTarget(const v1::Target& target, const v1::Target& device) {
  if (target.kind() != device.kind()) {
    return Bad("target.kind", "compiled for ", v1::Target::Kind_Name(target.kind()), ", and this is ",
               v1::Target::Kind_Name(device.kind()));
  }
  if (target.triple() != device.triple()) {
    return Bad("target.triple", "compiled for ", target.triple(), ", and this is ", device.triple());
  }
  absl::flat_hash_set<absl::string_view> present;
  for (const std::string& feature : device.features()) present.insert(feature);
  for (const std::string& feature : target.features()) {
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-')) {
      return Bad("target.features", "\"", feature, "\" begins with neither + nor -");
    }
    if (feature[0] == '+' && !present.contains(feature)) {
      return Bad("target.features", "it needs ", feature, ", which the device lacks");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKernels(const v1::Executable& executable) {
  absl::flat_hash_set<absl::string_view> symbols;
  for (int i = 0; i < executable.kernels_size(); ++i) {
    const v1::Kernel& kernel = executable.kernels(i);
    if (kernel.symbol().empty()) return Bad(Field("kernels", i, ".symbol"), "it is empty");
    if (!symbols.insert(kernel.symbol()).second) {
      return Bad(Field("kernels", i, ".symbol"), "\"", kernel.symbol(), "\" stands there twice");
    }
    if (kernel.iterations() > kMaxIterations) {
      return Bad(Field("kernels", i, ".iterations"), kernel.iterations(), " is too many");
    }
    if (kernel.grain() > kMaxIterations) return Bad(Field("kernels", i, ".grain"), kernel.grain(), " is too many");
  }
  return absl::OkStatus();
}

// The same rules for a parameter and a result.
template <typename Tensor>
absl::Status CheckTensor(const Tensor& tensor, absl::string_view list, int index, int variables) {
  const uint64_t item = StoredBytes(tensor.dtype());
  if (item == 0) return Bad(Field(list, index, ".dtype"), "nothing of this type is stored");
  uint64_t bytes = item;
  bool empty = false;
  for (const int64_t extent : tensor.shape()) {
    if (extent < 0) return Bad(Field(list, index, ".shape"), extent, " is negative");
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes) || bytes > kMaxBytes) {
      return Bad(Field(list, index, ".shape"), "it has too many elements");
    }
  }
  int64_t before = -1;
  for (const v1::Signature::SymbolicAxis& symbolic : tensor.symbolic()) {
    if (symbolic.axis() <= before || symbolic.axis() >= static_cast<uint32_t>(tensor.shape_size()))
      return Bad(Field(list, index, ".symbolic"), "axis ", symbolic.axis(), " does not ascend, or is none");
    before = symbolic.axis();
    const std::string fault = CheckSizeExpr(symbolic.size(), variables);
    if (!fault.empty()) return Bad(Field(list, index, ".symbolic"), fault);
  }
  if (empty) bytes = 0;
  if (tensor.bytes() != bytes) {
    return Bad(Field(list, index, ".bytes"), tensor.bytes(), " where dtype and shape make ", bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckVariables(const v1::Signature& signature) {
  absl::flat_hash_set<uint32_t> slots;
  for (const v1::Signature::Parameter& parameter : signature.parameters()) slots.insert(parameter.slot());
  for (int i = 0; i < signature.variables_size(); ++i) {
    const v1::Signature::Variable& variable = signature.variables(i);
    const int64_t value = variable.has_default_value() ? variable.default_value() : variable.min_value();
    if (value < variable.min_value() || value > variable.max_value())
      return Bad(Field("signature.variables", i), "its range is empty, or its default value outside of it");
    if (!slots.insert(variable.slot()).second || (i > 0 && variable.slot() <= signature.variables(i - 1).slot()))
      return Bad(Field("signature.variables", i, ".slot"), "slots do not ascend, or a parameter has this one");
  }
  for (int i = 0; i < signature.conditions_size(); ++i) {
    const std::string fault = CheckSizeExpr(signature.conditions(i).size(), signature.variables_size());
    if (!fault.empty()) return Bad(Field("signature.conditions", i), fault);
  }
  return absl::OkStatus();
}

absl::Status CheckSignature(const v1::Signature& signature) {
  KILN_RETURN_IF_ERROR(CheckVariables(signature));
  const int variables = signature.variables_size();
  for (int i = 0; i < signature.parameters_size(); ++i) {
    KILN_RETURN_IF_ERROR(CheckTensor(signature.parameters(i), "signature.parameters", i, variables));
    if (i > 0 && signature.parameters(i).slot() <= signature.parameters(i - 1).slot()) {
      return Bad(Field("signature.parameters", i, ".slot"), "slots do not ascend");
    }
  }
  for (int i = 0; i < signature.results_size(); ++i) {
    const v1::Signature::Result& result = signature.results(i);
    KILN_RETURN_IF_ERROR(CheckTensor(result, "signature.results", i, variables));
    if (!result.has_aliases()) continue;
    if (result.aliases() >= static_cast<uint32_t>(signature.parameters_size())) {
      return Bad(Field("signature.results", i, ".aliases"), "there is no parameter ", result.aliases());
    }
    if (result.bytes() != signature.parameters(result.aliases()).bytes()) {
      return Bad(Field("signature.results", i, ".aliases"), "parameter ", result.aliases(), " has ",
                 signature.parameters(result.aliases()).bytes(), " bytes, and the result ", result.bytes());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOperand(const v1::Operand& operand, const v1::Executable& executable, const std::string& field) {
  const v1::Signature& signature = executable.signature();
  const bool indexed = operand.space() == v1::Operand::PARAMETER || operand.space() == v1::Operand::RESULT ||
                       operand.space() == v1::Operand::VARIABLE || operand.space() == v1::Operand::PREPARED;
  if (indexed && operand.offset() != 0) return Bad(field + ".offset", "only the arena and the constants have offsets");
  if (!indexed && operand.index() != 0) return Bad(field + ".index", "the arena and the constants have no index");
  switch (operand.space()) {
    case v1::Operand::PARAMETER:
      if (operand.index() >= static_cast<uint32_t>(signature.parameters_size())) {
        return Bad(field + ".index", "there is no parameter ", operand.index());
      }
      if (operand.written() && !signature.parameters(operand.index()).written()) {
        return Bad(field + ".written", "parameter ", operand.index(), " is not one that the program writes");
      }
      return absl::OkStatus();
    case v1::Operand::RESULT:
      if (operand.index() >= static_cast<uint32_t>(signature.results_size())) {
        return Bad(field + ".index", "there is no result ", operand.index());
      }
      if (signature.results(operand.index()).has_aliases()) {
        return Bad(field + ".index", "result ", operand.index(), " is a parameter, not a fresh buffer");
      }
      return absl::OkStatus();
    case v1::Operand::ARENA:
      if (operand.offset() > executable.arena_bytes()) {
        return Bad(field + ".offset", operand.offset(), " is beyond the arena's ", executable.arena_bytes(), " bytes");
      }
      return absl::OkStatus();
    case v1::Operand::CONSTANTS:
      if (operand.offset() > executable.constants().size()) {
        return Bad(field + ".offset", operand.offset(), " is beyond the ", executable.constants().size(),
                   " bytes of constants");
      }
      if (operand.written()) return Bad(field + ".written", "constants are not written");
      return absl::OkStatus();
    case v1::Operand::VARIABLE:
      if (operand.index() >= static_cast<uint32_t>(signature.variables_size()))
        return Bad(field + ".index", "there is no variable ", operand.index());
      if (operand.written()) return Bad(field + ".written", "variables are not written");
      return absl::OkStatus();
    case v1::Operand::PREPARED:
      if (operand.index() >= static_cast<uint32_t>(executable.preparations_size()))
        return Bad(field + ".index", "there is no preparation ", operand.index());
      return absl::OkStatus();
    default:  // an open enum: also values that this version does not know
      return Bad(field + ".space", "there is no such space");
  }
}

// `field`: where the step stands. `arity`: of each kernel, -1 if it was not launched yet.
absl::Status CheckStep(const v1::Step& step, const v1::Executable& executable, const std::string& field,
                       std::vector<int>& arity) {
  if (step.kernel() >= arity.size()) return Bad(field + ".kernel", "there is no kernel ", step.kernel());
  int& operands = arity[step.kernel()];
  if (operands == -1) operands = step.operands_size();
  if (operands != step.operands_size()) {
    return Bad(field + ".operands", "kernel ", step.kernel(), " takes ", operands, " operands before and ",
               step.operands_size(), " here");
  }
  for (int i = 0; i < step.operands_size(); ++i)
    KILN_RETURN_IF_ERROR(CheckOperand(step.operands(i), executable, absl::StrCat(field, ".", Field("operands", i))));
  return absl::OkStatus();
}

// It reads its parameter and writes itself, and nothing else.
absl::Status CheckPreparation(const v1::Executable& executable, int index, std::vector<int>& arity) {
  const v1::Preparation& preparation = executable.preparations(index);
  const std::string field = Field("preparations", index);
  if (preparation.key().size() != kKeyBytes)
    return Bad(field + ".key", preparation.key().size(), " bytes where ", kKeyBytes, " are wanted");
  if (preparation.bytes() > kMaxBytes) return Bad(field + ".bytes", preparation.bytes(), " is too many");
  if (preparation.parameter() >= static_cast<uint32_t>(executable.signature().parameters_size()) ||
      executable.signature().parameters(static_cast<int>(preparation.parameter())).written()) {
    return Bad(field + ".parameter", "there is no parameter ", preparation.parameter(), ", or the program writes it");
  }
  KILN_RETURN_IF_ERROR(CheckStep(preparation.step(), executable, field + ".step", arity));
  for (const v1::Operand& operand : preparation.step().operands()) {
    const bool itself = operand.space() == v1::Operand::PREPARED && operand.index() == static_cast<uint32_t>(index);
    const bool source = operand.space() == v1::Operand::PARAMETER && operand.index() == preparation.parameter();
    if (!source && !itself) return Bad(field + ".step", "an operand is neither its parameter nor itself");
    if (operand.written() != itself) return Bad(field + ".step", "it must write itself, and nothing else");
  }
  return absl::OkStatus();
}

absl::Status CheckSteps(const v1::Executable& executable) {
  std::vector<int> arity(executable.kernels_size(), -1);
  std::vector<bool> written(executable.signature().results_size(), false);
  for (int i = 0; i < executable.preparations_size(); ++i) KILN_RETURN_IF_ERROR(CheckPreparation(executable, i, arity));
  for (int i = 0; i < executable.steps_size(); ++i) {
    const v1::Step& step = executable.steps(i);
    KILN_RETURN_IF_ERROR(CheckStep(step, executable, Field("steps", i), arity));
    for (const v1::Operand& operand : step.operands()) {
      if (operand.space() == v1::Operand::PREPARED && operand.written())
        return Bad(Field("steps", i, ".operands"), "preparation ", operand.index(), " is not written by a step");
      if (operand.space() == v1::Operand::RESULT && operand.written()) written[operand.index()] = true;
    }
  }
  for (int i = 0; i < executable.signature().results_size(); ++i) {
    const v1::Signature::Result& result = executable.signature().results(i);
    if (!result.has_aliases() && result.bytes() != 0 && !written[i]) {
      return Bad(Field("signature.results", i), "no step writes it");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckExecutable(const v1::Executable& executable, const v1::Target& device) {
  KILN_RETURN_IF_ERROR(CheckTarget(executable.target(), device));
  if (executable.arena_bytes() > kMaxBytes) {
    return Bad("arena_bytes", executable.arena_bytes(), " is more than any address space holds");
  }
  KILN_RETURN_IF_ERROR(CheckKernels(executable));
  KILN_RETURN_IF_ERROR(CheckSignature(executable.signature()));
  KILN_RETURN_IF_ERROR(CheckSteps(executable));
  return CheckTensorMaps(executable);
}

}  // namespace kiln::runtime
