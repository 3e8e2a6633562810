#include "server/engine/buffers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/collective/copy_between.h"
#include "server/engine/memory/tensor_type.h"
#include "server/fair/lane.h"

namespace kiln::server {
namespace {

absl::Status FieldError(v1::ErrorCode code, absl::string_view field, uint64_t handle, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(std::string(field));
  detail.set_handle(handle);
  return MakeError(detail, message);
}

}  // namespace

Buffers::Buffers(BufferTable* table, runtime::collective::Meetings* meetings, Turns* turns, absl::Duration timeout,
                 FindDevice find_device)
    : table_(table), meetings_(meetings), turns_(turns), timeout_(timeout), find_device_(std::move(find_device)) {}

absl::StatusOr<Buffers::NewRecord> Buffers::New(absl::string_view device, uint64_t bytes, v1::DType dtype,
                                                absl::Span<const int64_t> shape, const Session* payer) const {
  if (bytes > kLargestBuffer) {
    v1::ErrorDetail detail;
    detail.set_code(v1::SIZE_OVERFLOW);
    detail.set_field("bytes");
    detail.set_limit("buffer_bytes");
    detail.set_limit_value(kLargestBuffer);
    detail.set_used(bytes);
    return MakeError(detail, absl::StrCat(bytes, " bytes are more than any memory holds"));
  }
  auto record = std::make_shared<BufferRecord>();
  KILN_ASSIGN_OR_RETURN(record->device, find_device_(device, RulesOf(payer)));
  KILN_ASSIGN_OR_RETURN(auto memory,
                        runtime::hal::AllocateFor(AccountOf(payer), record->device->allocator(), bytes,
                                                  runtime::hal::MemoryUse::kClient, MemoryDomainOf(payer)));
  record->slice = runtime::hal::BufferSlice::Whole(std::move(memory));
  record->dtype = dtype;
  record->shape.assign(shape.begin(), shape.end());
  return record;
}

absl::StatusOr<NamedBuffer> Buffers::File(absl::StatusOr<NewRecord> record, SessionPtr owner) {
  if (!record.ok()) return std::move(record).status();
  (*record)->owner = std::move(owner);
  if ((*record)->poison == nullptr) (*record)->poison = std::make_shared<Poison>();
  KILN_ASSIGN_OR_RETURN(const uint64_t handle, table_->Add(*record));
  return NamedBuffer{handle, *std::move(record)};
}

absl::StatusOr<NamedBuffer> Buffers::Allocate(absl::string_view device, uint64_t bytes, SessionPtr caller) {
  auto record = New(device, bytes, v1::DTYPE_UNSPECIFIED, {}, caller.get());
  return File(std::move(record), std::move(caller));
}

absl::StatusOr<NamedBuffer> Buffers::Allocate(absl::string_view device, v1::DType dtype,
                                              absl::Span<const int64_t> shape, SessionPtr caller) {
  KILN_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(dtype, shape));
  auto record = New(device, bytes, dtype, shape, caller.get());
  return File(std::move(record), std::move(caller));
}

absl::Status Buffers::AllocateAs(uint64_t handle, PoisonPtr poison, absl::string_view device, uint64_t bytes,
                                 Session& owner) {
  KILN_ASSIGN_OR_RETURN(NewRecord record, New(device, bytes, v1::DTYPE_UNSPECIFIED, {}, &owner));
  record->poison = std::move(poison);
  owner.names().Make(handle, std::move(record));
  return absl::OkStatus();
}

absl::Status Buffers::AllocateAs(uint64_t handle, PoisonPtr poison, absl::string_view device, v1::DType dtype,
                                 absl::Span<const int64_t> shape, Session& owner) {
  KILN_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(dtype, shape));
  KILN_ASSIGN_OR_RETURN(NewRecord record, New(device, bytes, dtype, shape, &owner));
  record->poison = std::move(poison);
  owner.names().Make(handle, std::move(record));
  return absl::OkStatus();
}

absl::StatusOr<Buffers::Range> Buffers::Resolve(const BufferAddress& address, absl::optional<uint64_t> bytes,
                                                const Session* caller) const {
  KILN_ASSIGN_OR_RETURN(const BufferTable::Record record, table_->Find(address.handle, caller));
  const runtime::hal::BufferSlice& whole = record->slice;
  const bool starts_inside = address.offset <= whole.bytes;
  const uint64_t left = starts_inside ? whole.bytes - address.offset : 0;
  if (!starts_inside || bytes.value_or(0) > left) {
    return FieldError(v1::OUT_OF_BOUNDS, "buffer", address.handle,
                      absl::StrCat(bytes.value_or(0), " bytes from offset ", address.offset,
                                   " on are not inside a buffer of ", whole.bytes, " bytes"));
  }
  return Range{{whole.buffer, whole.offset + address.offset, bytes.value_or(left)}, record->device, record->poison};
}

absl::StatusOr<Buffers::NewRecord> Buffers::NewView(const BufferAddress& of, uint64_t bytes, v1::DType dtype,
                                                    absl::Span<const int64_t> shape, const Session* caller) const {
  if (dtype != v1::DTYPE_UNSPECIFIED) {
    KILN_ASSIGN_OR_RETURN(const uint64_t typed, TensorBytes(dtype, shape));
    if (bytes != 0 && bytes != typed) {
      return FieldError(v1::BUFFER_SIZE_MISMATCH, "bytes", of.handle,
                        absl::StrCat(TensorTypeName(dtype, shape), " takes ", typed, " bytes, not ", bytes));
    }
    bytes = typed;
  } else if (!shape.empty()) {
    return FieldError(v1::BAD_ARGUMENT, "shape", of.handle,
                      "a shape needs a dtype beside it; leave both out for a view of plain bytes");
  }
  const bool to_the_end = bytes == 0 && dtype == v1::DTYPE_UNSPECIFIED;
  KILN_ASSIGN_OR_RETURN(Range range, Resolve(of, to_the_end ? absl::optional<uint64_t>() : bytes, caller));
  auto record = std::make_shared<BufferRecord>();
  record->slice = std::move(range.slice);
  record->device = range.device;
  record->dtype = dtype;
  record->shape.assign(shape.begin(), shape.end());
  record->view_of = of.handle;
  record->poison = std::move(range.poison);
  return record;
}

absl::StatusOr<NamedBuffer> Buffers::View(const BufferAddress& of, uint64_t bytes, v1::DType dtype,
                                          absl::Span<const int64_t> shape, SessionPtr caller) {
  auto record = NewView(of, bytes, dtype, shape, caller.get());
  return File(std::move(record), std::move(caller));
}

absl::Status Buffers::ViewAs(uint64_t handle, const BufferAddress& of, uint64_t bytes, v1::DType dtype,
                             absl::Span<const int64_t> shape, Session& owner) {
  KILN_ASSIGN_OR_RETURN(NewRecord record, NewView(of, bytes, dtype, shape, &owner));
  owner.names().Make(handle, std::move(record));
  return absl::OkStatus();
}

absl::StatusOr<NamedBuffer> Buffers::Describe(uint64_t handle, const Session* caller) const {
  KILN_ASSIGN_OR_RETURN(BufferTable::Record record, table_->Find(handle, caller));
  const Extent all = ExtentIn(*record, 0, record->slice.bytes);
  const CausePtr cause = all.poison == nullptr ? nullptr : all.poison->In(all.begin, all.end);
  if (cause != nullptr) return cause->status;
  return NamedBuffer{handle, std::move(record)};
}

void Buffers::Copy(const BufferAddress& from, const BufferAddress& to, uint64_t bytes, const Session* caller,
                   const Control& control, Done done) {
  auto source = Resolve(from, bytes, caller);
  if (!source.ok()) return done(source.status());
  auto target = Resolve(to, bytes, caller);
  if (!target.ok()) return done(target.status());
  if (source->device != target->device) {
    return CopyInTurn(*std::move(source), *std::move(target), control, std::move(done));
  }
  Lane(*turns_, *source->device, control).Copy(std::move(source->slice), std::move(target->slice), std::move(done));
}

bool Buffers::IsBetweenDevices(const BufferAddress& from, const BufferAddress& to, const Session* caller) const {
  const absl::StatusOr<BufferTable::Record> source = table_->Find(from.handle, caller);
  const absl::StatusOr<BufferTable::Record> target = table_->Find(to.handle, caller);
  return source.ok() && target.ok() && (*source)->device != (*target)->device;
}

void Buffers::CopyInTurn(Range source, Range target, const Control& control, Done done) {
  const uint64_t estimate_ns = TransferNs(source.slice.bytes);
  turns_->Take({control, {source.device, target.device}, estimate_ns},
               [this, source = std::move(source), target = std::move(target), control, estimate_ns,
                done = std::move(done)](absl::StatusOr<Turn> turn) mutable {
                 if (!turn.ok()) return done(std::move(turn).status());
                 runtime::collective::CopyBetween(
                     *meetings_, source.device, std::move(source.slice), target.device, std::move(target.slice),
                     timeout_, control,
                     [estimate_ns, turn = *std::move(turn), done = std::move(done)](absl::Status status) mutable {
                       turn.End(estimate_ns);
                       done(std::move(status));
                     });
               });
}

void Buffers::Fill(const BufferAddress& to, uint64_t bytes, absl::string_view pattern, const Session* caller,
                   const Control& control, Done done) {
  const size_t length = pattern.size();
  if (length != 1 && length != 2 && length != 4 && length != 8) {
    return done(FieldError(v1::BAD_ARGUMENT, "pattern", to.handle,
                           absl::StrCat("a pattern has 1, 2, 4 or 8 bytes; this one has ", length)));
  }
  auto range = Resolve(to, bytes == 0 ? absl::optional<uint64_t>() : bytes, caller);
  if (!range.ok()) return done(range.status());
  if (range->slice.bytes % length != 0) {
    return done(FieldError(v1::BAD_ARGUMENT, "bytes", to.handle,
                           absl::StrCat(range->slice.bytes, " bytes are no multiple of the pattern's ", length)));
  }
  Lane(*turns_, *range->device, control).Fill(std::move(range->slice), pattern, std::move(done));
}

}  // namespace kiln::server
