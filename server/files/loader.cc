#include "server/files/loader.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// Between two looks at whether the load is still wanted.
constexpr uint64_t kPiece = 2 << 20;

// The tensors of these names.
absl::StatusOr<std::vector<StoredTensor>> Pick(std::vector<StoredTensor> tensors,
                                               const std::vector<std::string>& names) {
  if (names.empty()) return tensors;
  absl::flat_hash_map<absl::string_view, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  std::vector<StoredTensor> picked;
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      v1::ErrorDetail detail;
      detail.set_code(v1::BAD_ARGUMENT);
      detail.set_field("tensor");
      return MakeError(detail, absl::StrCat("the file has no tensor \"", name, "\"; ListTensors says which it has"));
    }
    picked.push_back(*found->second);
  }
  return picked;
}

absl::Status Fill(const DataFile& file, const StoredTensor& tensor, const runtime::hal::BufferSlice& slice,
                  runtime::hal::Device& device, const Control& control) {
  auto* to = static_cast<char*>(slice.host_data());
  // Where the host does not see the memory, a piece is read here first. Else nobody knows the
  // buffer yet, and its device's queue need not be asked.
  std::string piece;
  if (to == nullptr) piece.resize(std::min(kPiece, tensor.bytes));
  for (uint64_t done = 0; done < tensor.bytes; done += kPiece) {
    KILN_RETURN_IF_ERROR(control.Check());
    const uint64_t bytes = std::min(kPiece, tensor.bytes - done);
    KILN_RETURN_IF_ERROR(file.Read(tensor.offset + done, bytes, to == nullptr ? piece.data() : to + done));
    if (to != nullptr) continue;
    absl::Status outcome;
    absl::Notification written;
    device.queue().Write(piece.data(), {slice.buffer, slice.offset + done, bytes}, [&](absl::Status status) {
      outcome = std::move(status);
      written.Notify();
    });
    written.WaitForNotification();
    KILN_RETURN_IF_ERROR(outcome);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Loader::Found> Loader::Find(const std::string& file) const {
  Found found;
  KILN_ASSIGN_OR_RETURN(found.file, folder_->Find(file));
  KILN_ASSIGN_OR_RETURN(found.tensors, ListTensors(*found.file));
  return found;
}

void Loader::List(std::string file, const Control& control, ListCallback done) {
  thread_.Schedule(control, [this, file = std::move(file), control, done = std::move(done)]() mutable {
    if (absl::Status wanted = control.Check(); !wanted.ok()) return done(std::move(wanted));
    auto found = Find(file);
    if (!found.ok()) return done(std::move(found).status());
    done(std::move(found->tensors));
  });
}

void Loader::Load(std::string file, std::vector<std::string> names, std::string device, SessionPtr caller,
                  const Control& control, LoadCallback done) {
  thread_.Schedule(control, [this, file = std::move(file), names = std::move(names), device = std::move(device),
                             caller = std::move(caller), control, done = std::move(done)]() mutable {
    if (absl::Status wanted = control.Check(); !wanted.ok()) return done(std::move(wanted));
    auto found = Find(file);
    if (!found.ok()) return done(std::move(found).status());
    auto picked = Pick(std::move(found->tensors), names);
    if (!picked.ok()) return done(std::move(picked).status());
    found->tensors = *std::move(picked);
    std::vector<LoadedTensor> loaded;
    const absl::Status status = LoadAll(*found, device, caller, control, loaded);
    if (status.ok()) return done(std::move(loaded));
    for (const LoadedTensor& tensor : loaded) buffers_->Free({tensor.buffer.handle}, caller.get()).IgnoreError();
    done(status);
  });
}

absl::Status Loader::LoadAll(const Found& found, const std::string& device, const SessionPtr& caller,
                             const Control& control, std::vector<LoadedTensor>& loaded) {
  double bytes = 0;
  for (const StoredTensor& tensor : found.tensors) bytes += static_cast<double>(tensor.bytes);
  KILN_RETURN_IF_ERROR(Spend(control.account, Quota::kLoadBytes, bytes));
  for (const StoredTensor& tensor : found.tensors) {
    KILN_ASSIGN_OR_RETURN(NamedBuffer buffer, buffers_->Allocate(device, tensor.dtype, tensor.shape, caller));
    loaded.push_back({tensor.name, buffer});
    KILN_RETURN_IF_ERROR(Fill(*found.file, tensor, buffer.record->slice, *buffer.record->device, control));
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
