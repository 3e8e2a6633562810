#include "runtime/drivers/gpu/launcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime::gpu {
namespace {

// So many launches are asked for ahead of one that may be the last.
constexpr size_t kAhead = 64;

}  // namespace

Launcher::Launcher(LaunchPlace* place, std::vector<Kernel*> kernels)
    : place_(place), kernels_(std::move(kernels)), graphs_(place->card) {
  size_t max_parameters = 0;
  for (const Kernel* kernel : kernels_)
    max_parameters = std::max(max_parameters, kernel->operands + kernel->tensor_maps.size());
  parameters_.resize(max_parameters);
}

absl::Status Launcher::LaunchAll(absl::Span<const hal::LaunchStep> steps, void* const* operands,
                                 const hal::LaunchControl& control, uint32_t& launched) {
  const bool may_stop = control.cancelled != nullptr || control.deadline != absl::InfiniteFuture();
  const size_t piece = may_stop ? std::min(kAhead, steps.size()) : steps.size();
  LaunchGraphs::Known* const known = graphs_.Find(steps, operands, piece, place_->stream);
  for (size_t first = 0; first < steps.size(); first += piece) {
    if (first != 0) {
      KILN_RETURN_IF_ERROR(place_->card->Finish(place_->stream));
      KILN_RETURN_IF_ERROR(control.Check());
    }
    const auto some = steps.subspan(first, piece);
    KILN_RETURN_IF_ERROR(place_->clock->Begin());
    uint32_t asked = 0;
    const absl::Status status = graphs_.Launch(known, first / piece, some.size(), place_->stream, [&](Stream stream) {
      for (asked = 0; asked < some.size(); ++asked) {
        const hal::LaunchStep& step = some[asked];
        KILN_RETURN_IF_ERROR(Ask(stream, *kernels_[step.kernel], operands + step.first_operand));
      }
      return absl::OkStatus();
    });
    if (status.ok()) {
      asked = static_cast<uint32_t>(some.size());
    } else if (asked == some.size()) {
      asked = 0;  // for a graph, which was not taken
    }
    launched += asked;
    place_->launches.fetch_add(asked, std::memory_order_relaxed);
    KILN_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Launcher::Ask(Stream stream, Kernel& kernel, void* const* operands) {
  // An operand is what the parameter holds: an address, or a variable's value.
  for (uint32_t i = 0; i < kernel.operands; ++i) parameters_[i] = const_cast<void**>(&operands[i]);
  absl::Status status = kernel.tensor_maps.Find(place_->card, operands, parameters_.data() + kernel.operands);
  if (status.ok()) status = place_->card->Launch(stream, kernel.function, kernel.shape, parameters_.data());
  return status.ok() ? status : Annotate(status, absl::StrCat("kernel ", kernel.symbol));
}

}  // namespace kiln::runtime::gpu
