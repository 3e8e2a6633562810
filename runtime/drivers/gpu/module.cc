#include "runtime/drivers/gpu/module.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/gpu/owned.h"
#include "runtime/drivers/gpu/replay.h"
#include "runtime/drivers/gpu/tensor_maps.h"

namespace kiln::runtime::gpu {
namespace {

// So many launches are asked for ahead of one that may be the last.
constexpr size_t kAhead = 64;

struct Kernel {
  std::string symbol;
  Function function = nullptr;
  LaunchShape shape;
  uint32_t operands = 0;
  TensorMaps tensor_maps;
};

class GpuModule final : public hal::Module {
 public:
  GpuModule(Card* card, Stream stream, LaunchClock* clock, OwnedImage image, std::vector<Kernel> kernels,
            ModuleCounters* counters)
      : card_(card),
        stream_(stream),
        clock_(clock),
        image_(std::move(image)),
        kernels_(std::move(kernels)),
        counters_(counters),
        replay_(card) {
    size_t most = 0;
    for (const Kernel& kernel : kernels_) most = std::max(most, kernel.operands + kernel.tensor_maps.size());
    parameters_.resize(most);
    counters_->modules.fetch_add(1, std::memory_order_relaxed);
  }
  ~GpuModule() override { counters_->modules.fetch_sub(1, std::memory_order_relaxed); }

  absl::Status Launch(uint32_t kernel, void* const* operands, const hal::LaunchControl& control) override {
    const hal::LaunchStep step = {kernel, 0, kernels_[kernel].operands};
    uint32_t launched = 0;
    return LaunchAll({&step, 1}, operands, control, launched);
  }

  absl::Status LaunchAll(absl::Span<const hal::LaunchStep> steps, void* const* operands,
                         const hal::LaunchControl& control, uint32_t& launched) override {
    const bool may_stop = control.cancelled != nullptr || control.deadline != absl::InfiniteFuture();
    while (!steps.empty()) {
      const auto some = steps.subspan(0, may_stop ? kAhead : steps.size());
      KILN_RETURN_IF_ERROR(clock_->Begin());
      KILN_RETURN_IF_ERROR(replay_.Launch(some, operands, stream_, [&](Stream stream) -> absl::Status {
        for (const hal::LaunchStep& step : some) {
          KILN_RETURN_IF_ERROR(Ask(stream, kernels_[step.kernel], operands + step.first_operand));
        }
        return absl::OkStatus();
      }));
      launched += some.size();
      counters_->launches.fetch_add(some.size(), std::memory_order_relaxed);
      steps.remove_prefix(some.size());
      if (steps.empty()) break;
      KILN_RETURN_IF_ERROR(card_->Finish(stream_));
      KILN_RETURN_IF_ERROR(control.Check());
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Ask(Stream stream, Kernel& kernel, void* const* operands) {
    // An operand is what the parameter holds: an address, or a variable's value.
    for (uint32_t i = 0; i < kernel.operands; ++i) parameters_[i] = const_cast<void**>(&operands[i]);
    absl::Status status = kernel.tensor_maps.Find(card_, operands, parameters_.data() + kernel.operands);
    if (status.ok()) status = card_->Launch(stream, kernel.function, kernel.shape, parameters_.data());
    return status.ok() ? status : Annotate(status, absl::StrCat("kernel ", kernel.symbol));
  }

  Card* const card_;
  const Stream stream_;
  LaunchClock* const clock_;
  const OwnedImage image_;
  std::vector<Kernel> kernels_;
  ModuleCounters* const counters_;
  Replay replay_;
  std::vector<void*> parameters_;  // of the launch that is being asked for
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

absl::Status CheckLimit(const v1::Kernel& kernel, absl::string_view what, uint64_t wanted, uint64_t most,
                        const Card& card) {
  if (wanted <= most) return absl::OkStatus();
  return TooLarge(what, most, wanted,
                  absl::StrCat("kernel ", kernel.symbol(), " (", kernel.name(), ") needs ", wanted, " ", what, "; ",
                               card.facts().name, ", ", card.facts().product, ", has ", most));
}

absl::Status CheckLaunch(const v1::Kernel& kernel, const LaunchShape& shape, const FunctionFacts& function,
                         const Card& card) {
  const CardFacts& facts = card.facts();
  uint64_t items = 1;
  for (int axis = 0; axis < 3; ++axis) {
    const std::string along = absl::StrCat(" along ", std::string(1, static_cast<char>('x' + axis)));
    KILN_RETURN_IF_ERROR(CheckLimit(kernel, "groups" + along, shape.groups[axis], facts.most_groups[axis], card));
    KILN_RETURN_IF_ERROR(CheckLimit(kernel, "items" + along, shape.items[axis], facts.most_items[axis], card));
    KILN_RETURN_IF_ERROR(CheckLimit(kernel, "items of all groups" + along,
                                    uint64_t{shape.groups[axis]} * shape.items[axis], facts.most_items_along, card));
    items *= shape.items[axis];
  }
  KILN_RETURN_IF_ERROR(CheckLimit(kernel, "items of a group", items, facts.most_items_of_group, card));
  KILN_RETURN_IF_ERROR(CheckLimit(kernel, "shared bytes of a group",
                                  function.static_shared_bytes + shape.dynamic_shared_bytes, facts.most_shared_bytes,
                                  card));
  if (items <= function.most_items) return absl::OkStatus();
  return TooLarge(
      "items of a group", function.most_items, items,
      absl::StrCat("kernel ", kernel.symbol(), " (", kernel.name(), ") runs in groups of ", items, " items; with its ",
                   function.registers, " registers an item, ", facts.name, " has room for ", function.most_items));
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

absl::StatusOr<std::unique_ptr<hal::Module>> LoadModule(const v1::Executable& executable, Card* card, Stream stream,
                                                        LaunchClock* clock, ModuleCounters* counters) {
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
  return std::make_unique<GpuModule>(card, stream, clock, std::move(image), std::move(kernels), counters);
}

}  // namespace kiln::runtime::gpu
