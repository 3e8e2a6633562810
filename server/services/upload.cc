// BufferService.Write: while the device takes one chunk, the next one travels. What arrived
// before a failure has been written.
//   MALFORMED_MESSAGE   no header at the start, or a second one
//   TRUNCATED_UPLOAD    fewer bytes than the header promised
//   TOO_MUCH_DATA       more
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "kiln/v1/buffer_service.pb.h"
#include "server/fair/lane.h"
#include "server/messages/convert.h"
#include "server/services/rpcs.h"
#include "server/services/transfer.h"

namespace kiln::server {
namespace {

absl::Status Malformed(absl::string_view message) { return MakeError(v1::MALFORMED_MESSAGE, message); }

// A chunk goes to the device in steps this long: what others submit meanwhile comes
// between them, and so waits for a step and not for a chunk.
constexpr uint64_t kStepBytes = 128 << 10;

// A chunk on its way to the device.
struct Chunk {
  WritePart part;
  size_t next = 0;  // of its pieces; those before it have been taken

  bool empty() const { return next == part.pieces.size(); }

  WritePart TakeStep() {
    WritePart step;
    step.bytes = part.bytes;
    while (!empty() && step.size < kStepBytes) {
      absl::string_view& piece = part.pieces[next];
      const absl::string_view taken = piece.substr(0, kStepBytes - step.size);
      step.pieces.push_back(taken);
      step.size += taken.size();
      piece.remove_prefix(taken.size());
      if (piece.empty()) ++next;
    }
    return step;
  }
};

// A chunk is read, waits, is written: one of each at most. The next read begins with the
// last step of the write, so a slow device holds its client back.
class Upload final : public UploadReactor {
 public:
  Upload(Admitted admitted, grpc::ByteBuffer* response)
      : admitted_(std::move(admitted)), env_(admitted_.env()), response_(response) {
    if (auto caller = SessionOf(admitted_); caller.ok()) {
      caller_ = *std::move(caller);
      control_ = {&cancelled_, DeadlineOf(admitted_.context()), admitted_.account(), FlowOf(admitted_, caller_)};
      StartRead(&message_);
    } else {
      End(caller.status());
    }
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(AtEnd());
    CountReceived(admitted_, message_);
    auto part = ParseWritePart(message_);
    absl::Status status = part.status();
    if (status.ok()) status = Pay(*part);
    if (status.ok()) status = part->header.has_value() ? Open(*part->header) : CheckChunk(*part);
    if (!status.ok()) return End(std::move(status));
    if (part->size == 0) return StartRead(&message_);
    received_ += part->size;
    mutex_.Lock();
    waiting_ = Chunk{*std::move(part)};
    PumpAndUnlock();
  }

  // What waits for its turn does so no longer.
  void OnCancel() override {
    cancelled_.store(true, std::memory_order_relaxed);
    End(MakeError(v1::CALL_CANCELLED, "the call was cancelled"));
  }
  void OnEnd() override { delete this; }

  // For the message, as long as any of it is used.
  absl::Status Pay(WritePart& part) {
    if (admitted_.account() == nullptr) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(Charge charge, Hold(admitted_.account(), Quota::kHostBytes, message_.Length()));
    part.bytes = std::make_shared<std::pair<Charge, std::shared_ptr<void>>>(std::move(charge), std::move(part.bytes));
    return absl::OkStatus();
  }

  absl::Status Open(const v1::WriteHeader& header) {
    if (open_) return Malformed("a second header in one upload");
    KILN_ASSIGN_OR_RETURN(target_,
                          env_.engine.buffers().Resolve(ToAddress(header.buffer()), header.bytes(), caller_.get()));
    KILN_RETURN_IF_ERROR(Spend(admitted_.account(), Quota::kUploadBytes, static_cast<double>(header.bytes())));
    handle_ = header.buffer().handle();
    open_ = true;
    return absl::OkStatus();
  }

  absl::Status SizeError(v1::ErrorCode code, uint64_t got) const {
    v1::ErrorDetail detail;
    detail.set_code(code);
    detail.set_handle(handle_);
    detail.set_limit("bytes");
    detail.set_limit_value(target_.slice.bytes);
    detail.set_used(got);
    return MakeError(detail, absl::StrCat("the header promised ", target_.slice.bytes, " bytes; ", got, " came"));
  }

  absl::Status CheckChunk(const WritePart& part) const {
    if (!open_) return Malformed("an upload begins with a header");
    if (part.size > target_.slice.bytes - received_) return SizeError(v1::TOO_MUCH_DATA, received_ + part.size);
    return absl::OkStatus();
  }

  // The client has sent all it will.
  absl::Status AtEnd() const {
    if (!open_) return Malformed("an upload begins with a header; this one had no message");
    if (received_ < target_.slice.bytes) return SizeError(v1::TRUNCATED_UPLOAD, received_);
    return absl::OkStatus();
  }

  // Once what is being written is: an answer, or the first error.
  void End(absl::Status status) {
    mutex_.Lock();
    if (!ending_.has_value()) ending_ = std::move(status);
    PumpAndUnlock();
  }

  // Does what can be done now. One thread at a time; whoever comes meanwhile has left its
  // news for that one, so a write that ends within its call nests nothing. Nothing of this
  // object may be touched after it.
  void PumpAndUnlock() ABSL_UNLOCK_FUNCTION(mutex_) {
    if (pumping_) return mutex_.Unlock();
    pumping_ = true;
    while (!writing_ && waiting_.has_value() && !ending_.has_value()) {
      WritePart step = waiting_->TakeStep();
      const bool last = waiting_->empty();
      if (last) waiting_.reset();
      writing_ = true;
      mutex_.Unlock();
      if (last) StartRead(&message_);
      Write(std::move(step));
      mutex_.Lock();
    }
    pumping_ = false;
    const bool finish = !writing_ && ending_.has_value() && !std::exchange(finished_, true);
    absl::Status status = finish ? *ending_ : absl::OkStatus();
    mutex_.Unlock();
    if (finish) Answer(std::move(status));
  }

  void Write(WritePart step) {
    const runtime::hal::BufferSlice to{target_.slice.buffer, target_.slice.offset + written_, step.size};
    written_ += step.size;
    Lane(env_.engine.turns(), *target_.device, control_)
        .WritePieces(std::move(step.pieces), to, [this, bytes = std::move(step.bytes)](absl::Status status) mutable {
          bytes.reset();
          mutex_.Lock();
          writing_ = false;
          if (!status.ok() && !ending_.has_value()) ending_ = std::move(status);
          PumpAndUnlock();
        });
  }

  // Nothing is being written. A read may be under way still; it ends with the call.
  void Answer(absl::Status status) {
    if (status.ok()) {
      Touched touched;
      touched.Overwrites(target_.extent());
      touched.Heal();
      v1::WriteResponse response;
      response.set_bytes(written_);
      status = Encode(response, *response_);
      if (status.ok()) CountSent(admitted_, *response_);
    }
    FinishWith(*this, admitted_, status);
  }

  const Admitted admitted_;
  const ServiceEnv& env_;
  grpc::ByteBuffer* const response_;

  // Of the read under way and its callback.
  grpc::ByteBuffer message_;
  SessionPtr caller_;
  std::atomic<bool> cancelled_{false};
  Control control_;
  bool open_ = false;
  uint64_t handle_ = 0;
  Buffers::Range target_;
  uint64_t received_ = 0;

  uint64_t written_ = 0;  // of who pumps

  absl::Mutex mutex_;
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Chunk> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

UploadReactor* rpc::BufferService::Write(Admitted admitted, grpc::ByteBuffer* response) {
  return new Upload(std::move(admitted), response);
}

}  // namespace kiln::server
