#include "server/engine/collective.h"

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/engine.h"
#include "server/engine/memory/tensor_type.h"
#include "server/fair/lane.h"

namespace kiln::server {
namespace {

namespace collective = runtime::collective;

absl::Status At(v1::ErrorCode code, absl::string_view list, size_t index, uint64_t handle, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(absl::StrCat(list, " ", index));
  detail.set_handle(handle);
  return MakeError(detail, absl::StrCat(list, " ", index, ": ", message));
}

// The slice of one rank's, and its device.
absl::Status ResolveOne(const CollectiveRequest& request, const BufferTable& table, absl::string_view list,
                        size_t index, const BufferAddress& address, uint64_t elements, collective::Request& resolved,
                        bool is_participant) {
  const auto record = table.Find(address.handle, request.caller.get());
  if (!record.ok()) {
    const std::string place = absl::StrCat(list, " ", index);
    return WithDetail(Annotate(record.status(), place), [&](v1::ErrorDetail& detail) {
      detail.set_field(place);
      detail.set_handle(address.handle);
    });
  }
  const BufferRecord& buffer = **record;
  if (buffer.dtype != v1::DTYPE_UNSPECIFIED && buffer.dtype != request.dtype) {
    return At(v1::BUFFER_DTYPE_MISMATCH, list, index, address.handle,
              absl::StrCat("the buffer holds ", TensorTypeName(buffer.dtype, buffer.shape),
                           ", and the collective is of ", TensorTypeName(request.dtype, {})));
  }
  const uint64_t bytes = elements * collective::ItemBytes(request.dtype);
  if (address.offset > buffer.slice.bytes || bytes > buffer.slice.bytes - address.offset) {
    return At(v1::OUT_OF_BOUNDS, list, index, address.handle,
              absl::StrCat(bytes, " bytes from offset ", address.offset, " on are not inside a buffer of ",
                           buffer.slice.bytes, " bytes"));
  }
  (list == "input" ? resolved.inputs : resolved.outputs)
      .push_back({buffer.slice.buffer, buffer.slice.offset + address.offset, bytes});
  if (is_participant) resolved.devices.push_back(buffer.device);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<collective::Request> Resolve(const CollectiveRequest& request, const BufferTable& table) {
  KILN_RETURN_IF_ERROR(collective::CheckSizes(request.kind, request.dtype, request.count, request.root,
                                              request.inputs.size(), request.outputs.size()));
  collective::Request resolved;
  resolved.kind = request.kind;
  resolved.op = request.op;
  resolved.dtype = request.dtype;
  resolved.count = request.count;
  resolved.root = request.root;
  resolved.deterministic_order = request.deterministic_order;
  const bool one_input = collective::OneInput(request.kind);
  const auto ranks = static_cast<uint32_t>(one_input ? request.outputs.size() : request.inputs.size());
  const auto elements = [&](bool parts, size_t rank) {
    return parts ? collective::PartOf(request.count, ranks, static_cast<uint32_t>(rank)).elements : request.count;
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    KILN_RETURN_IF_ERROR(ResolveOne(request, table, "input", i, request.inputs[i],
                                    elements(collective::InputsAreParts(request.kind), i), resolved, !one_input));
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    KILN_RETURN_IF_ERROR(ResolveOne(request, table, "output", i, request.outputs[i],
                                    elements(collective::OutputsAreParts(request.kind), i), resolved, one_input));
  }
  return resolved;
}

Touched Engine::TouchedBy(const CollectiveRequest& request) const {
  Touched touched;
  const bool one_input = collective::OneInput(request.kind);
  const auto ranks = static_cast<uint32_t>(one_input ? request.outputs.size() : request.inputs.size());
  const uint64_t item = collective::ItemBytes(request.dtype);
  const auto shown = [&](const BufferAddress& at, bool parts, size_t rank) {
    const uint64_t elements = parts && ranks > 0
                                  ? collective::PartOf(request.count, ranks, static_cast<uint32_t>(rank)).elements
                                  : request.count;
    // More than any buffer has: an error of its own, which concerns the whole of it.
    const uint64_t bytes = elements > kLargestBuffer ? elements : elements * item;
    return table_.ExtentOf(at.handle, at.offset, bytes, request.caller.get());
  };
  for (size_t i = 0; i < request.inputs.size(); ++i)
    touched.Reads(shown(request.inputs[i], collective::InputsAreParts(request.kind), i).extent);
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    BufferTable::Shown output = shown(request.outputs[i], collective::OutputsAreParts(request.kind), i);
    output.made ? touched.Overwrites(std::move(output.extent)) : touched.Writes(output.extent);
  }
  return touched;
}

void Engine::Collective(const CollectiveRequest& request, const Control& asking, CollectiveCallback done) {
  Control control = asking;
  control.domain = MemoryDomainOf(request.caller.get());
  auto resolved = Resolve(request, table_);
  if (!resolved.ok()) return done(std::move(resolved).status());
  if (RulesOf(request.caller.get()) != nullptr && RulesOf(request.caller.get())->own != nullptr) {
    return done(
        MakeError(v1::NOT_IMPLEMENTED, "a collective, for a tenant whose programs run in a process of their own"));
  }
  TurnRequest asked{control, {}};
  for (runtime::hal::Device* device : resolved->devices) {
    // One that is there twice is refused by Run.
    if (!absl::c_linear_search(asked.devices, device)) asked.devices.push_back(device);
  }
  if (asked.devices.empty()) return collectives_.Run(*std::move(resolved), control, std::move(done));
  const uint64_t bytes = request.count * collective::ItemBytes(request.dtype);
  asked.estimate_ns = TransferNs(bytes);
  turns_.Take(std::move(asked), [this, resolved = *std::move(resolved), control,
                                 done = std::move(done)](absl::StatusOr<Turn> turn) mutable {
    if (!turn.ok()) return done(std::move(turn).status());
    collectives_.Run(std::move(resolved), control,
                     [turn = *std::move(turn), done = std::move(done)](absl::StatusOr<collective::Report> ran) mutable {
                       turn.End();
                       done(std::move(ran));
                     });
  });
}

}  // namespace kiln::server
