#include "server/services/shared_copy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/hal/wanted_copy.h"
#include "server/fair/lane.h"
#include "server/messages/convert.h"
#include "server/messages/not_implemented.h"

namespace kiln::server {
namespace {

// Others' work comes between the pieces, and so waits for no more than one. A piece is what
// takes about kPieceTime: into memory that the system has yet to find that is a tenth of what
// it is otherwise.
constexpr uint64_t kMinPiece = 32 << 10;
constexpr uint64_t kMaxPiece = 512 << 10;
constexpr absl::Duration kPieceTime = absl::Microseconds(30);

// Owns itself until it has called back.
class Copier {
 public:
  Copier(Metrics& metrics, Turns& turns, Buffers::Range range, SharedBytes shared, bool upload, const Control& control,
         runtime::hal::DoneCallback done)
      : metrics_(metrics),
        turns_(turns),
        range_(std::move(range)),
        shared_(std::move(shared)),
        upload_(upload),
        control_(control),
        done_(std::move(done)) {}

  void Next() {
    const uint64_t size = std::min(range_.slice.bytes - copied_, piece_);
    if (size == 0) return End(absl::OkStatus());
    if (absl::Status wanted = control_.Check(); !wanted.ok()) return Fail(std::move(wanted));
    const runtime::hal::BufferSlice piece{range_.slice.buffer, range_.slice.offset + copied_, size};
    char* const at = shared_.data + copied_;
    copied_ += size;
    const auto next = [this, size](absl::Status status) {
      if (status.ok()) return Next();
      copied_ -= size;
      Fail(std::move(status));
    };
    Pace();
    if (upload_) {
      Lane(turns_, *range_.device, control_).Write(at, piece, next);
    } else {
      Lane(turns_, *range_.device, control_).Read(piece, at, next);
    }
  }

 private:
  void Pace() {
    const absl::Time now = SteadyNow();
    if (copied_ > piece_) {
      if (now - begun_ > 2 * kPieceTime) piece_ = std::max(piece_ / 2, kMinPiece);
      if (now - begun_ < kPieceTime / 2) piece_ = std::min(piece_ * 2, kMaxPiece);
    }
    begun_ = now;
  }

  // The piece that was to come next has not, and those before it have.
  void Fail(absl::Status status) { End(upload_ && copied_ > 0 ? runtime::hal::Partly(std::move(status)) : status); }

  void End(const absl::Status& status) {
    const std::unique_ptr<Copier> self(this);
    Touched touched;
    upload_ ? touched.Overwrites(range_.extent()) : touched.Reads(range_.extent());
    if (status.ok()) metrics_.bytes.Add(copied_, upload_ ? Direction::kFromShared : Direction::kToShared);
    done_(touched.Finish(status));
  }

  Metrics& metrics_;
  Turns& turns_;
  const Buffers::Range range_;
  const SharedBytes shared_;
  const bool upload_;
  const Control control_;
  runtime::hal::DoneCallback done_;
  uint64_t copied_ = 0;
  uint64_t piece_ = 128 << 10;
  absl::Time begun_;  // the piece under way
};

absl::Status BadSides() {
  return MakeError(v1::BAD_ARGUMENT,
                   "a Copy has one `from` or `from_shared` and one `to` or `to_shared`, of which one is a buffer");
}

}  // namespace

void CopyShared(const ServiceEnv& env, const v1::CopyRequest& request, const Session* caller, const Control& control,
                runtime::hal::DoneCallback done) {
  if (env.shared_memory == nullptr) return done(NotImplemented("CopyRequest.from_shared, CopyRequest.to_shared"));
  const bool upload = request.has_from_shared();
  if (request.has_to_shared() == upload || request.has_from() == upload || request.has_to() != upload) {
    return done(BadSides());
  }
  const uint64_t bytes = request.bytes();
  auto range = env.engine.buffers().Resolve(ToAddress(upload ? request.to() : request.from()), bytes, caller);
  if (!range.ok()) return done(range.status());
  Touched touched;
  if (!upload) touched.Reads(range->extent());
  if (absl::Status healthy = touched.Check(); !healthy.ok()) return done(std::move(healthy));
  const v1::SharedMemory& at = upload ? request.from_shared() : request.to_shared();
  auto shared = env.shared_memory->regions().Find(at.handle(), at.offset(), bytes, caller);
  if (!shared.ok()) return done(shared.status());
  (new Copier(env.engine.metrics(), env.engine.turns(), *std::move(range), *std::move(shared), upload, control,
              std::move(done)))
      ->Next();
}

}  // namespace kiln::server
