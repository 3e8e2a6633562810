#include "runtime/drivers/gpu/tensor_maps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"

namespace kiln::runtime::gpu {
namespace {

// Callers take turns with a few sets of buffers at most.
constexpr size_t kMaxKnown = 8;
constexpr uint64_t kAlign = 16;  // of what the copy engine reads

absl::Status Refused(const v1::Kernel& kernel, v1::ErrorCode code, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field("launch.tensor_maps");
  return MakeError(std::move(detail), absl::StrCat("kernel ", kernel.symbol(), " (", kernel.name(), "): ", why));
}

}  // namespace

absl::StatusOr<TensorMaps> TensorMaps::Of(const v1::Kernel& kernel, uint32_t operands, const Card& card) {
  TensorMaps maps;
  const auto& wanted = kernel.launch().tensor_maps();
  if (wanted.empty()) return maps;
  if (const std::string why = card.WhyNoTensorMaps(); !why.empty()) {
    return Refused(kernel, v1::NOT_IMPLEMENTED,
                   absl::StrCat("it takes tensor maps, which ", card.facts().name, " has not: ", why));
  }
  for (const v1::TensorMap& each : wanted) {
    const int axes = each.sizes_size();
    Map map;
    map.operand = each.operand();
    map.offset = each.offset_bytes();
    map.tensor.axes = static_cast<uint32_t>(axes);
    map.tensor.element_bytes = StoredBytes(each.dtype());
    map.tensor.swizzle_bytes = each.swizzle_bytes();
    // Else CheckExecutable has checked all.
    if (each.operand() >= operands || axes < 1 || static_cast<size_t>(axes) > map.tensor.sizes.size() ||
        each.strides_bytes_size() != axes - 1 || each.box_size() != axes)
      return Refused(kernel, v1::INTERNAL_FAULT, "a tensor map of no operand, or with a wrong number of axes");
    std::copy(each.sizes().begin(), each.sizes().end(), map.tensor.sizes.begin());
    std::copy(each.strides_bytes().begin(), each.strides_bytes().end(), map.tensor.strides_bytes.begin());
    std::copy(each.box().begin(), each.box().end(), map.tensor.box.begin());
    map.known.reserve(kMaxKnown);
    maps.maps_.push_back(std::move(map));
  }
  return maps;
}

absl::Status TensorMaps::Find(Card* card, void* const* operands, void** parameters) {
  static EncodedTensorMap none;  // nobody writes to it
  for (Map& map : maps_) {
    void*& parameter = *parameters++;
    const Address operand = reinterpret_cast<Address>(operands[map.operand]);
    parameter = none.bytes;
    if (operand % kAlign != 0) continue;
    const auto found = std::find_if(map.known.begin(), map.known.end(),
                                    [&](const Known& known) { return known.address == operand + map.offset; });
    if (found != map.known.end()) {
      parameter = found->encoded.bytes;
      continue;
    }
    Known known;
    known.address = map.tensor.address = operand + map.offset;
    KILN_RETURN_IF_ERROR(card->Encode(map.tensor, known.encoded));
    Known* place = nullptr;
    if (map.known.size() < kMaxKnown) {
      place = &map.known.emplace_back();
    } else {
      place = &map.known[map.next];
      map.next = (map.next + 1) % kMaxKnown;
    }
    *place = known;
    parameter = place->encoded.bytes;
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime::gpu
