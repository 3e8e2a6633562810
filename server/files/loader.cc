#include "server/files/loader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// Between two looks at whether the load is still wanted; and of a turn.
constexpr uint64_t kPiece = 2 << 20, kTurn = 16 << 20;
// What making a buffer counts for in a turn: a file may have a million tensors of nothing.
constexpr uint64_t kTensor = 4 << 10;

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

// `bytes` bytes of the file, into memory that nobody else knows yet.
absl::Status ReadPiece(const DataFile& file, uint64_t from, uint64_t bytes, const BufferRecord& to, uint64_t offset) {
  if (auto* const seen = static_cast<char*>(to.slice.host_data()); seen != nullptr)
    return file.Read(from, bytes, seen + offset);  // the device's queue need not be asked
  std::string piece(bytes, '\0');
  KILN_RETURN_IF_ERROR(file.Read(from, bytes, piece.data()));
  absl::Status outcome;
  absl::Notification written;
  to.device->queue().Write(piece.data(), {to.slice.buffer, to.slice.offset + offset, bytes}, [&](absl::Status status) {
    outcome = std::move(status);
    written.Notify();
  });
  written.WaitForNotification();
  return outcome;
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

struct Loader::UnderWay {
  std::string file;
  std::vector<std::string> names;
  std::string device;
  SessionPtr caller;
  Control control;
  LoadCallback done;
  // Once it has begun. Of the last of `loaded`, so much has been read.
  std::optional<Found> found;
  std::vector<LoadedTensor> loaded;
  uint64_t read = 0;
};

void Loader::Load(std::string file, std::vector<std::string> names, std::string device, SessionPtr caller,
                  const Control& control, LoadCallback done) {
  auto load = std::make_shared<UnderWay>();
  load->file = std::move(file);
  load->names = std::move(names);
  load->device = std::move(device);
  load->caller = std::move(caller);
  load->control = control;
  load->done = std::move(done);
  Continue(std::move(load));
}

void Loader::Continue(std::shared_ptr<UnderWay> load) {
  const Control control = load->control;
  thread_.Schedule(control, [this, load = std::move(load)]() mutable {
    const absl::StatusOr<bool> ended = ReadOn(*load);
    if (ended.ok() && !*ended) return Continue(std::move(load));
    if (ended.ok()) return load->done(std::move(load->loaded));
    for (const LoadedTensor& tensor : load->loaded)
      buffers_->Free({tensor.buffer.handle}, load->caller.get()).IgnoreError();
    load->loaded.clear();  // who is told has the memory back
    load->done(ended.status());
  });
}

absl::Status Loader::Begin(UnderWay& load) {
  KILN_ASSIGN_OR_RETURN(Found found, Find(load.file));
  KILN_ASSIGN_OR_RETURN(found.tensors, Pick(std::move(found.tensors), load.names));
  double bytes = 0;
  for (const StoredTensor& tensor : found.tensors) bytes += static_cast<double>(tensor.bytes);
  KILN_RETURN_IF_ERROR(Spend(load.control.account, Quota::kLoadBytes, bytes));
  load.found = std::move(found);
  return absl::OkStatus();
}

absl::StatusOr<bool> Loader::ReadOn(UnderWay& load) {
  KILN_RETURN_IF_ERROR(load.control.Check());
  if (!load.found.has_value()) KILN_RETURN_IF_ERROR(Begin(load));
  const std::vector<StoredTensor>& tensors = load.found->tensors;
  for (uint64_t left = kTurn; left > 0;) {
    if (load.loaded.empty() || load.read == tensors[load.loaded.size() - 1].bytes) {
      if (load.loaded.size() == tensors.size()) return true;
      const StoredTensor& next = tensors[load.loaded.size()];
      KILN_ASSIGN_OR_RETURN(NamedBuffer buffer, buffers_->Allocate(load.device, next.dtype, next.shape, load.caller));
      load.loaded.push_back({next.name, std::move(buffer)});
      load.read = 0;
      left -= std::min(left, kTensor);
      continue;
    }
    const StoredTensor& tensor = tensors[load.loaded.size() - 1];
    const uint64_t bytes = std::min({kPiece, left, tensor.bytes - load.read});
    KILN_RETURN_IF_ERROR(load.control.Check());
    KILN_RETURN_IF_ERROR(
        ReadPiece(*load.found->file, tensor.offset + load.read, bytes, *load.loaded.back().buffer.record, load.read));
    load.read += bytes;
    left -= bytes;
  }
  return false;
}

}  // namespace kiln::server
