#include "runtime/drivers/gpu/module.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/gpu/owned.h"
#include "runtime/drivers/gpu/tensor_maps.h"

namespace kiln::runtime::gpu {
namespace {

class GpuModule final : public hal::Module {
 public:
  GpuModule(LaunchPlace* place, std::atomic<uint64_t>* modules, OwnedImage image, std::vector<Kernel> kernels)
      : image_(std::move(image)),
        kernels_(std::move(kernels)),
        launcher_(place, PointersTo(kernels_)),
        modules_(modules) {
    modules_->fetch_add(1, std::memory_order_relaxed);
  }
  ~GpuModule() override { modules_->fetch_sub(1, std::memory_order_relaxed); }

  Kernel* kernel(uint32_t number) { return &kernels_[number]; }

  absl::Status Launch(uint32_t kernel, void* const* operands, const hal::LaunchControl& control) override {
    const hal::LaunchStep step = {kernel, 0, kernels_[kernel].operands};
    uint32_t launched = 0;
    return LaunchAll({&step, 1}, operands, control, launched);
  }

  absl::Status LaunchAll(absl::Span<const hal::LaunchStep> steps, void* const* operands,
                         const hal::LaunchControl& control, uint32_t& launched) override {
    return launcher_.LaunchAll(steps, operands, control, launched);
  }

 private:
  static std::vector<Kernel*> PointersTo(std::vector<Kernel>& kernels) {
    std::vector<Kernel*> pointers;
    for (Kernel& kernel : kernels) pointers.push_back(&kernel);
    return pointers;
  }

  const OwnedImage image_;
  std::vector<Kernel> kernels_;
  Launcher launcher_;
  std::atomic<uint64_t>* const modules_;
};

class GpuLaunchList final : public hal::LaunchList {
 public:
  GpuLaunchList(LaunchPlace* place, std::vector<hal::LaunchStep> steps, std::vector<Kernel*> kernels)
      : steps_(std::move(steps)), launcher_(place, std::move(kernels)) {}

  absl::Status Run(void* const* operands, const hal::LaunchControl& control, uint32_t& launched) override {
    return launcher_.LaunchAll(steps_, operands, control, launched);
  }

 private:
  const std::vector<hal::LaunchStep> steps_;
  Launcher launcher_;
};

absl::Status Bad(const v1::Kernel& kernel, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(v1::INTERNAL_FAULT);
  detail.set_field("launch");
  return MakeError(std::move(detail), absl::StrCat("kernel ", kernel.symbol(), ": ", why));
}

absl::StatusOr<LaunchShape> ShapeOf(const v1::Kernel& kernel) {
  const v1::Launch& launch = kernel.launch();
  LaunchShape shape;
  if (launch.groups_size() != 3 || launch.items_size() != 3) return Bad(kernel, "it says no groups and items");
  for (int axis = 0; axis < 3; ++axis) {
    shape.groups[axis] = launch.groups(axis);
    shape.items[axis] = launch.items(axis);
    if (shape.groups[axis] == 0 || shape.items[axis] == 0) return Bad(kernel, "no groups, or no items in them");
  }
  shape.dynamic_shared_bytes = launch.dynamic_shared_bytes();
  return shape;
}

absl::Status CheckLimit(const v1::Kernel& kernel, absl::string_view what, uint64_t wanted, uint64_t limit_value,
                        const Card& card) {
  if (wanted <= limit_value) return absl::OkStatus();
  return TooLarge(what, limit_value, wanted,
                  absl::StrCat("kernel ", kernel.symbol(), " (", kernel.name(), ") needs ", wanted, " ", what, "; ",
                               card.facts().name, ", ", card.facts().product, ", has ", limit_value));
}

absl::Status CheckLaunch(const v1::Kernel& kernel, const LaunchShape& shape, const FunctionFacts& function,
                         const Card& card) {
  const CardFacts& facts = card.facts();
  uint64_t items = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const std::string along = absl::StrCat(" along ", std::string(1, static_cast<char>('x' + axis)));
    KILN_RETURN_IF_ERROR(CheckLimit(kernel, "groups" + along, shape.groups[axis], facts.max_groups[axis], card));
    KILN_RETURN_IF_ERROR(CheckLimit(kernel, "items" + along, shape.items[axis], facts.max_items[axis], card));
    KILN_RETURN_IF_ERROR(CheckLimit(kernel, "items of all groups" + along,
                                    uint64_t{shape.groups[axis]} * shape.items[axis], facts.max_items_along, card));
    items *= shape.items[axis];
  }
  KILN_RETURN_IF_ERROR(CheckLimit(kernel, "items of a group", items, facts.max_items_of_group, card));
  KILN_RETURN_IF_ERROR(CheckLimit(kernel, "shared bytes of a group",
                                  function.static_shared_bytes + shape.dynamic_shared_bytes, facts.max_shared_bytes,
                                  card));
  if (items <= function.max_items) return absl::OkStatus();
  return TooLarge(
      "items of a group", function.max_items, items,
      absl::StrCat("kernel ", kernel.symbol(), " (", kernel.name(), ") runs in groups of ", items, " items; with its ",
                   function.registers, " registers an item, ", facts.name, " has room for ", function.max_items));
}

absl::StatusOr<Kernel> FindKernel(const v1::Kernel& kernel, Image image, uint32_t operands, Card* card) {
  KILN_ASSIGN_OR_RETURN(const LaunchShape shape, ShapeOf(kernel));
  KILN_ASSIGN_OR_RETURN(const Function function, card->Find(image, kernel.symbol()));
  KILN_ASSIGN_OR_RETURN(const FunctionFacts facts, card->FactsOf(function));
  KILN_RETURN_IF_ERROR(CheckLaunch(kernel, shape, facts, *card));
  if (shape.dynamic_shared_bytes != 0) {
    KILN_RETURN_IF_ERROR(card->AllowShared(function, shape.dynamic_shared_bytes));
  }
  KILN_ASSIGN_OR_RETURN(TensorMaps tensor_maps, TensorMaps::Of(kernel, operands, *card));
  return Kernel{kernel.symbol(), function, shape, operands, std::move(tensor_maps)};
}

std::vector<uint32_t> OperandsOf(const v1::Executable& executable) {
  std::vector<uint32_t> operands(executable.kernels_size());
  const auto note = [&](const v1::Step& step) {
    operands[step.kernel()] = static_cast<uint32_t>(step.operands_size());
  };
  for (const v1::Preparation& preparation : executable.preparations()) note(preparation.step());
  for (const v1::Step& step : executable.steps()) note(step);
  return operands;
}

}  // namespace

absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable, LaunchPlace* place,
                                                        std::atomic<uint64_t>* modules) {
  Card* const card = place->card;
  const std::string& arch = card->facts().target.arch();
  if (executable.target().arch() != arch) {
    v1::ErrorDetail detail;
    detail.set_code(v1::INTERNAL_FAULT);
    detail.set_field("target.arch");
    return MakeError(std::move(detail), absl::StrCat("executable.target.arch: compiled for ",
                                                     executable.target().arch(), ", and this is ", arch));
  }
  OwnedImage image;
  std::vector<Kernel> kernels;
  // A program that only hands its parameters back has no code at all.
  if (executable.kernels_size() != 0) {
    KILN_ASSIGN_OR_RETURN(const Image loaded, card->Load(executable.object()));
    image = OwnedImage(card, loaded);
    const std::vector<uint32_t> operands = OperandsOf(executable);
    for (int i = 0; i < executable.kernels_size(); ++i) {
      KILN_ASSIGN_OR_RETURN(Kernel kernel, FindKernel(executable.kernels(i), loaded, operands[i], card));
      kernels.push_back(std::move(kernel));
    }
  }
  return std::make_unique<GpuModule>(place, modules, std::move(image), std::move(kernels));
}

std::unique_ptr<hal::LaunchList> MakeLaunchList(absl::Span<const hal::Launch> launches, LaunchPlace* place) {
  std::vector<hal::LaunchStep> steps;
  std::vector<Kernel*> kernels;  // each is there once
  absl::flat_hash_map<Kernel*, uint32_t> numbers;
  for (const hal::Launch& launch : launches) {
    Kernel* const kernel = static_cast<GpuModule*>(launch.module)->kernel(launch.kernel);
    const auto [number, is_new] = numbers.try_emplace(kernel, static_cast<uint32_t>(kernels.size()));
    if (is_new) kernels.push_back(kernel);
    steps.push_back({number->second, launch.first_operand, kernel->operands});
  }
  return std::make_unique<GpuLaunchList>(place, std::move(steps), std::move(kernels));
}

}  // namespace kiln::runtime::gpu
