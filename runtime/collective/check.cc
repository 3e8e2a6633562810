// What a collective may be asked for.
#include "base/check.h"

#include <limits>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/collective/collective.h"

namespace kiln::runtime::collective {
namespace {

absl::Status Bad(v1::ErrorCode code, absl::string_view field, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(std::string(field));
  return MakeError(detail, absl::StrCat(field, ": ", message));
}

absl::Status CheckDevices(const std::vector<hal::Device*>& devices) {
  std::set<const hal::Device*> seen;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    if (seen.insert(devices[rank]).second) continue;
    return Bad(v1::DUPLICATE_DEVICE, absl::StrCat("rank ", rank),
               absl::StrCat(devices[rank]->name(), " takes part already; a device has one place"));
  }
  return absl::OkStatus();
}

absl::Status CheckLength(Kind kind, absl::string_view field, size_t length, bool one, size_t ranks) {
  const size_t wanted = one ? 1 : ranks;
  if (length == wanted) return absl::OkStatus();
  return Bad(v1::BAD_ARGUMENT, field,
             absl::StrCat(length, " buffers; ", KindName(kind), " of ", ranks, " has ", wanted));
}

// Of the slices at `field`, all or the root's alone.
absl::Status CheckSlices(const Request& request, absl::string_view field, const std::vector<hal::BufferSlice>& slices,
                         bool one, bool parts, uint32_t item) {
  const auto ranks = static_cast<uint32_t>(request.devices.size());
  for (uint32_t i = 0; i < slices.size(); ++i) {
    const std::string name = absl::StrCat(field, " ", i);
    const hal::BufferSlice& slice = slices[i];
    if (absl::Status status = hal::CheckSlice(slice); !status.ok()) {
      return WithDetail(Annotate(status, name), [&](v1::ErrorDetail& detail) { detail.set_field(name); });
    }
    const uint32_t rank = one ? request.root : i;
    if (slice.buffer->device() != request.devices[rank]) {
      return Bad(v1::BUFFER_DEVICE_MISMATCH, name,
                 absl::StrCat("the buffer is on ", slice.buffer->device()->name(), ", and rank ", rank, " on ",
                              request.devices[rank]->name()));
    }
    const uint64_t bytes = item * (parts ? PartOf(request.count, ranks, rank).elements : request.count);
    if (slice.bytes != bytes) {
      return Bad(v1::BUFFER_SIZE_MISMATCH, name, absl::StrCat(slice.bytes, " bytes, where ", bytes, " are wanted"));
    }
    if (slice.offset % item != 0) {
      return Bad(v1::BUFFER_DTYPE_MISMATCH, name,
                 absl::StrCat("it begins at byte ", slice.offset, ", which is no multiple of ", item));
    }
  }
  return absl::OkStatus();
}

// An input and an output of one rank: apart, or item on item.
absl::Status CheckSharing(const Request& request, uint32_t item) {
  const auto ranks = static_cast<uint32_t>(request.devices.size());
  const bool one_input = OneInput(request.kind), one_output = OneOutput(request.kind);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if ((one_input || one_output) && rank != request.root) continue;
    const hal::BufferSlice& input = request.inputs[one_input ? 0 : rank];
    const hal::BufferSlice& output = request.outputs[one_output ? 0 : rank];
    if (!hal::Overlap(input, output)) continue;
    const uint64_t shift = item * PartOf(request.count, ranks, rank).begin;
    const uint64_t input_begin = input.offset + (OutputsAreParts(request.kind) ? shift : 0);
    const uint64_t output_begin = output.offset + (InputsAreParts(request.kind) ? shift : 0);
    if (input_begin == output_begin) continue;
    return Bad(v1::BAD_ARGUMENT, absl::StrCat("output ", one_output ? 0 : rank),
               "it shares bytes with the same rank's input, but not the same elements at the same place");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSizes(Kind kind, v1::DType dtype, uint64_t count, uint32_t root, size_t inputs, size_t outputs) {
  const size_t ranks = OneInput(kind) ? outputs : inputs;
  if (ranks == 0 || ranks > kMaxRanks) {
    return Bad(v1::BAD_ARGUMENT, "participants",
               absl::StrCat(ranks, " of them; a collective has between 1 and ", kMaxRanks));
  }
  KILN_RETURN_IF_ERROR(CheckLength(kind, "input", inputs, OneInput(kind), ranks));
  KILN_RETURN_IF_ERROR(CheckLength(kind, "output", outputs, OneOutput(kind), ranks));
  if (HasRoot(kind) && root >= ranks) {
    return Bad(v1::BAD_ARGUMENT, "root", absl::StrCat(root, " is no rank of ", ranks, " participants"));
  }
  if (!HasRoot(kind) && root != 0) {
    return Bad(v1::BAD_ARGUMENT, "root", absl::StrCat(KindName(kind), " has no root"));
  }
  if (ItemBytes(dtype) == 0) {
    const std::string& name = v1::DType_Name(dtype);
    return Bad(v1::BAD_ARGUMENT, "dtype",
               absl::StrCat(name.empty() ? absl::StrCat(int{dtype}) : name, " is not stored in buffers"));
  }
  if (count > std::numeric_limits<uint64_t>::max() / 16) {
    return Bad(v1::SIZE_OVERFLOW, "count", absl::StrCat(count, " elements are more than any memory holds"));
  }
  return absl::OkStatus();
}

absl::Status Check(const Request& request) {
  KILN_RETURN_IF_ERROR(CheckSizes(request.kind, request.dtype, request.count, request.root, request.inputs.size(),
                                  request.outputs.size()));
  const size_t ranks = OneInput(request.kind) ? request.outputs.size() : request.inputs.size();
  KILN_CHECK(request.devices.size() == ranks);
  KILN_RETURN_IF_ERROR(CheckDevices(request.devices));
  const uint32_t item = ItemBytes(request.dtype);
  KILN_RETURN_IF_ERROR(
      CheckSlices(request, "input", request.inputs, OneInput(request.kind), InputsAreParts(request.kind), item));
  KILN_RETURN_IF_ERROR(
      CheckSlices(request, "output", request.outputs, OneOutput(request.kind), OutputsAreParts(request.kind), item));
  return CheckSharing(request, item);
}

}  // namespace kiln::runtime::collective
