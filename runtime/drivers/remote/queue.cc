#include "runtime/drivers/remote/queue.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime::remote {
namespace {

uint64_t AddressOf(const hal::BufferSlice& slice) { return reinterpret_cast<uint64_t>(slice.device_data()); }

cluster::Packer Place(const hal::BufferSlice& slice) {
  return cluster::Packer().Number(AddressOf(slice)).Number(slice.bytes);
}

// Any: the queue has a thread of its own for all.
constexpr uint64_t kEstimateNs = 1000;

}  // namespace

absl::Status Line::Ask(Command command, std::string rest, std::string* answer,
                       const hal::LaunchControl& control) const {
  return Blame(board->End(board->Begin(rank, lane, command, std::move(rest)), answer, control));
}

absl::Status Line::Write(uint32_t to_lane, const std::vector<absl::string_view>& pieces, uint64_t address,
                         uint64_t bytes) const {
  cluster::Packer rest;
  rest.Number(address).Number(bytes);
  if (bytes <= kMaxBytesInMessage) {
    for (const absl::string_view piece : pieces) rest.Rest(piece);
    return Blame(board->End(board->Begin(rank, to_lane, Command::kWrite, rest.Take())));
  }
  rest.Number<uint64_t>(pieces.size());
  for (const absl::string_view piece : pieces) rest.Number<uint64_t>(piece.size());
  const uint64_t number = board->Begin(rank, to_lane, Command::kWrite, rest.Take());
  cluster::Transport& transport = board->transport();
  std::vector<cluster::Transport::ParcelPtr> parcels;
  for (const absl::string_view piece : pieces) {
    parcels.push_back(transport.Send(rank, TagOf(number), piece.data(), piece.size()));
  }
  // All of them, since the memory is the caller's; the answer tells of a failure too.
  for (const auto& parcel : parcels) transport.Wait(parcel).IgnoreError();
  return Blame(board->End(number));
}

absl::Status Line::Read(uint32_t from_lane, uint64_t address, uint64_t bytes, void* to) const {
  const uint64_t number =
      board->Begin(rank, from_lane, Command::kRead, cluster::Packer().Number(address).Number(bytes).Take());
  if (bytes > kMaxBytesInMessage) {
    cluster::Transport& transport = board->transport();
    transport.Wait(transport.Receive(rank, TagOf(number), to, bytes)).IgnoreError();
    return Blame(board->End(number));
  }
  std::string answer;
  KILN_RETURN_IF_ERROR(Blame(board->End(number, &answer)));
  if (answer.size() != bytes) return Blame(cluster::BadMessage("has not the bytes that were asked for"));
  if (bytes != 0) std::memcpy(to, answer.data(), bytes);
  return absl::OkStatus();
}

absl::Status Line::Blame(const absl::Status& status) const {
  if (status.ok()) return status;
  auto detail = DetailOf(status);
  // It may also be another rank's death that a task tells of.
  if (!detail.has_value() || detail->code() != v1::PARTICIPANT_MISSING || board->transport().Life(rank).ok())
    return status;
  detail->set_field(name);
  return MakeError(*std::move(detail), absl::StrCat(name, " cannot be used: ", status.message()));
}

void RemoteQueue::Copy(hal::BufferSlice from, hal::BufferSlice to, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckCopy(device_, from, to); !status.ok()) return done(std::move(status));
  Submit(
      [this, from = std::move(from), to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        cluster::Packer rest;
        rest.Number(AddressOf(from)).Number(AddressOf(to)).Number(from.bytes);
        done(line_.Ask(Command::kCopy, rest.Take()));
      },
      kEstimateNs);
}

void RemoteQueue::Write(const void* from, hal::BufferSlice to, hal::DoneCallback done) {
  const uint64_t bytes = to.bytes;
  WritePieces({absl::string_view(static_cast<const char*>(from), bytes)}, std::move(to), std::move(done));
}

void RemoteQueue::WritePieces(std::vector<absl::string_view> pieces, hal::BufferSlice to, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckPieces(device_, pieces, to); !status.ok()) return done(std::move(status));
  Submit(
      [this, pieces = std::move(pieces), to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        done(line_.Write(line_.lane, pieces, AddressOf(to), to.bytes));
      },
      kEstimateNs);
}

void RemoteQueue::Read(hal::BufferSlice from, void* to, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckOn(device_, from); !status.ok()) return done(std::move(status));
  Submit(
      [this, from = std::move(from), to, done = std::move(done)]() mutable {
        absl::Status read = line_.Read(line_.lane, AddressOf(from), from.bytes, to);
        from = hal::BufferSlice();
        done(std::move(read));
      },
      kEstimateNs);
}

void RemoteQueue::Fill(hal::BufferSlice to, absl::string_view pattern, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckOn(device_, to); !status.ok()) return done(std::move(status));
  Submit(
      [this, rest = Place(to).Bytes(pattern).Take(), to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        done(line_.Ask(Command::kFill, std::move(rest)));
      },
      kEstimateNs);
}

void RemoteQueue::Clear(uint64_t address, uint64_t bytes, std::function<void()> done) {
  Submit(
      [this, address, bytes, done = std::move(done)] {
        // An error means that the device is dead: nobody reads it again.
        line_.Ask(Command::kClear, cluster::Packer().Number(address).Number(bytes).Take()).IgnoreError();
        done();
      },
      kEstimateNs);
}

}  // namespace kiln::runtime::remote
