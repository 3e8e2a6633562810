#include "runtime/collective/copy_between.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/collective/script_meeting.h"
#include "runtime/hal/remote.h"
#include "runtime/hal/wanted_copy.h"

namespace kiln::runtime::collective {
namespace {

uint64_t AddressOf(const hal::BufferSlice& slice) { return reinterpret_cast<uint64_t>(slice.device_data()); }

uint32_t PlaceOf(hal::Device* device) { return device->remote() == nullptr ? 0 : device->remote()->rank(); }

// At least one is of another process.
void CopyAcross(Meetings& meetings, hal::Device* from_device, hal::BufferSlice from, hal::Device* to_device,
                hal::BufferSlice to, absl::Duration timeout, const hal::LaunchControl& control,
                hal::DoneCallback done) {
  std::vector<Script> scripts(2);
  scripts[1].self = 1;
  if (PlaceOf(from_device) == PlaceOf(to_device)) {
    scripts[1].steps.push_back(
        {.kind = ScriptStep::Kind::kCopy, .from = AddressOf(from), .to = AddressOf(to), .bytes = from.bytes});
  } else if (from.bytes != 0) {
    scripts[0].steps.push_back(
        {.kind = ScriptStep::Kind::kSend, .peer = 1, .from = AddressOf(from), .bytes = from.bytes});
    scripts[1].steps.push_back(
        {.kind = ScriptStep::Kind::kReceive, .peer = 0, .to = AddressOf(to), .bytes = from.bytes});
  }
  MeetWithScripts(meetings, {from_device, to_device}, std::move(scripts), {to}, timeout, control,
                  [from, to, done = std::move(done)](absl::Status status, double) mutable { done(std::move(status)); });
}

// The host does not see the memory of one or of both: it goes through the host's, piece by
// piece, by the thread of the one that gets it.
void CopyByHost(Meetings& meetings, hal::Device* from_device, hal::BufferSlice from, hal::Device* to_device,
                hal::BufferSlice to, absl::Duration timeout, const hal::LaunchControl& control,
                hal::DoneCallback done) {
  constexpr uint64_t kPiece = 16 << 20;
  const auto outcome = std::make_shared<absl::Status>();  // of the work
  auto work = [=, from = std::move(from), to = std::move(to)](uint32_t rank) {
    if (rank == 0) return;
    to.buffer->Changed();
    std::string piece(std::min(from.bytes, kPiece), '\0');
    for (uint64_t at = 0; at < from.bytes && outcome->ok(); at += kPiece) {
      if (absl::Status wanted = control.Check(); !wanted.ok()) {
        *outcome = at == 0 ? wanted : hal::Partly(std::move(wanted));
        return;
      }
      const uint64_t bytes = std::min(kPiece, from.bytes - at);
      *outcome = from_device->Load(static_cast<const char*>(from.device_data()) + at, bytes, piece.data());
      const bool stores = outcome->ok();
      if (stores) *outcome = to_device->Store(piece.data(), bytes, static_cast<char*>(to.device_data()) + at);
      if (!outcome->ok() && (stores || at > 0)) *outcome = hal::Partly(std::move(*outcome));
    }
  };
  meetings.Submit({{from_device, to_device}, std::move(work), timeout, control},
                  [outcome, done = std::move(done)](absl::Status met) mutable {
                    done(met.ok() ? std::move(*outcome) : std::move(met));
                  });
}

// The one that gets it does it.
void CopyDirectly(Meetings& meetings, hal::Device* from_device, hal::BufferSlice from, hal::Device* to_device,
                  hal::BufferSlice to, absl::Duration timeout, const hal::LaunchControl& control,
                  hal::DoneCallback done) {
  const auto outcome = std::make_shared<absl::Status>();  // of the work
  auto work = [=, from = std::move(from), to = std::move(to)](uint32_t rank) {
    if (rank == 0) return;
    to.buffer->Changed();
    const hal::Move move = {from.device_data(), to.device_data(), from.bytes};
    *outcome = to_device->CopyFrom(*from_device, {&move, 1});
  };
  meetings.Submit({{from_device, to_device}, std::move(work), timeout, control},
                  [outcome, done = std::move(done)](absl::Status met) mutable {
                    done(met.ok() ? std::move(*outcome) : std::move(met));
                  });
}

// The host sees the memory of both: each copies one half.
void CopyByHalves(Meetings& meetings, hal::Device* from_device, hal::BufferSlice from, hal::Device* to_device,
                  hal::BufferSlice to, absl::Duration timeout, const hal::LaunchControl& control,
                  hal::DoneCallback done) {
  const auto outcomes = std::make_shared<std::array<absl::Status, 2>>();  // of the work
  auto work = [=](uint32_t rank) {
    const uint64_t half = from.bytes / 2;
    const uint64_t begin = rank == 0 ? 0 : half;
    const uint64_t bytes = rank == 0 ? half : from.bytes - half;
    if (bytes == 0) return;
    to.buffer->Changed();
    (*outcomes)[rank] = hal::CopyWhileWanted(static_cast<char*>(to.host_data()) + begin,
                                             static_cast<const char*>(from.host_data()) + begin, bytes, control);
  };
  const bool two = from.bytes > 1;  // of one byte the first half is nothing
  meetings.Submit({{from_device, to_device}, std::move(work), timeout, control},
                  [outcomes, two, done = std::move(done)](absl::Status met) mutable {
                    absl::Status& a = (*outcomes)[0];
                    absl::Status& b = (*outcomes)[1];
                    const bool stopped = !a.ok() || !b.ok();
                    // One half may be there, and of the other nothing.
                    const bool partly = stopped && ((two && a.ok()) || b.ok() || hal::IsPartly(a) || hal::IsPartly(b));
                    met.Update(a);
                    met.Update(b);
                    done(partly ? hal::Partly(std::move(met)) : std::move(met));
                  });
}

}  // namespace

void CopyBetween(Meetings& meetings, hal::Device* from_device, hal::BufferSlice from, hal::Device* to_device,
                 hal::BufferSlice to, absl::Duration timeout, const hal::LaunchControl& control,
                 hal::DoneCallback done) {
  absl::Status status = hal::CheckSlice(from);
  if (status.ok()) status = hal::CheckSlice(to);
  if (status.ok() && from.bytes != to.bytes) {
    status =
        MakeError(v1::BUFFER_SIZE_MISMATCH, absl::StrCat("a copy of ", from.bytes, " bytes to ", to.bytes, " bytes"));
  }
  const bool across = AnyRemote({from_device, to_device});
  if (status.ok() && across) status = CheckSeen({from, to});
  if (!status.ok()) return done(std::move(status));
  if (across) {
    return CopyAcross(meetings, from_device, std::move(from), to_device, std::move(to), timeout, control,
                      std::move(done));
  }
  if (to_device->CopiesFrom(*from_device)) {
    return CopyDirectly(meetings, from_device, std::move(from), to_device, std::move(to), timeout, control,
                        std::move(done));
  }
  if (from.host_data() == nullptr || to.host_data() == nullptr) {
    return CopyByHost(meetings, from_device, std::move(from), to_device, std::move(to), timeout, control,
                      std::move(done));
  }
  CopyByHalves(meetings, from_device, std::move(from), to_device, std::move(to), timeout, control, std::move(done));
}

}  // namespace kiln::runtime::collective
