// BufferService.Read: while one chunk travels, the device gives the next one.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "kiln/v1/buffer_service.pb.h"
#include "server/fair/lane.h"
#include "server/messages/convert.h"
#include "server/services/rpcs.h"
#include "server/services/transfer.h"

namespace kiln::server {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

constexpr uint32_t kChunkTag =
    WireFormatLite::MakeTag(v1::ReadResponse::kChunkFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

// A chunk of `bytes` that end with the message.
grpc::Slice ChunkHead(uint64_t bytes, uint64_t room) {
  uint8_t head[16];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(kChunkTag, head);
  end = CodedOutputStream::WriteVarint64ToArray(bytes, end);
  const auto size = static_cast<size_t>(end - head);
  grpc::Slice slice(size + room);
  std::memcpy(const_cast<uint8_t*>(slice.begin()), head, size);
  return slice;
}

// A chunk is read, waits, is sent: one of each at most, and none is read while one waits.
//
// Several chunks of memory that the host sees are not copied: once the queue has come as
// far as the call, they are slices of that memory, which keep it alive. Whoever writes there
// before the client has all could as well have come between two chunks. What is one chunk
// is read as one.
class Download final : public DownloadReactor {
 public:
  Download(Admitted admitted, const grpc::ByteBuffer& request) : admitted_(std::move(admitted)), env_(admitted_.env()) {
    absl::Status status = Open(request);
    mutex_.Lock();
    if (!status.ok()) ending_ = std::move(status);
    PumpAndUnlock();
  }

 private:
  absl::Status Open(const grpc::ByteBuffer& bytes) {
    KILN_ASSIGN_OR_RETURN(const SessionPtr caller, SessionOf(admitted_));
    control_ = {&cancelled_, DeadlineOf(admitted_.context()), admitted_.account(), FlowOf(admitted_, caller)};
    v1::ReadRequest request;
    KILN_RETURN_IF_ERROR(CheckSmall(bytes));
    KILN_RETURN_IF_ERROR(Decode(bytes, LimitsOf(env_), request));
    const auto size = request.bytes() == 0 ? absl::optional<uint64_t>() : request.bytes();
    KILN_ASSIGN_OR_RETURN(source_, env_.engine.buffers().Resolve(ToAddress(request.buffer()), size, caller.get()));
    // Of the chunk that is read, and the one that travels.
    KILN_ASSIGN_OR_RETURN(charge_,
                          Hold(admitted_.account(), Quota::kHostBytes, 2 * std::min(source_.slice.bytes, kChunkBytes)));
    return Healthy();
  }

  absl::Status Healthy() const {
    Touched touched;
    touched.Reads(source_.extent());
    return touched.Check();
  }

  // Does what can be done now. One thread at a time; whoever comes meanwhile has left its
  // news for that one, so a read that ends within its call nests nothing. Nothing of this
  // object may be touched after it.
  void PumpAndUnlock() ABSL_UNLOCK_FUNCTION(mutex_) {
    if (pumping_) return mutex_.Unlock();
    pumping_ = true;
    for (;;) {
      if (waiting_.has_value() && !sending_ && !ending_.has_value()) {
        message_ = *std::exchange(waiting_, std::nullopt);
        sending_ = true;
        mutex_.Unlock();
        CountSent(admitted_, message_);
        StartWrite(&message_);
      } else if (!waiting_.has_value() && !reading_ && !ending_.has_value() && read_ < source_.slice.bytes) {
        reading_ = true;
        mutex_.Unlock();
        Read();
      } else {
        break;
      }
      mutex_.Lock();
    }
    pumping_ = false;
    if (!reading_ && !sending_ && !waiting_.has_value() && !ending_.has_value()) ending_ = absl::OkStatus();
    const bool finish = ending_.has_value() && !reading_ && !sending_ && !std::exchange(finished_, true);
    const absl::Status status = finish ? *ending_ : absl::OkStatus();
    mutex_.Unlock();
    if (finish) FinishWith(*this, admitted_, status);
  }

  void Read() {
    const uint64_t size = std::min(source_.slice.bytes - read_, kChunkBytes);
    const runtime::hal::BufferSlice from{source_.slice.buffer, source_.slice.offset + read_, size};
    const bool first = read_ == 0;
    read_ += size;
    if (from.host_data() != nullptr && source_.slice.bytes > kChunkBytes) {
      chunk_ = {ChunkHead(size, /*room=*/0), SliceOf(from)};
      if (!first) return Take(absl::OkStatus());
      Lane(env_.engine.turns(), *source_.device, control_).Pass([this](absl::Status status) {
        Take(std::move(status));
      });
      return;
    }
    // The device writes into the very bytes that will travel.
    chunk_ = {ChunkHead(size, /*room=*/size)};
    void* data = const_cast<uint8_t*>(chunk_[0].end()) - size;
    Lane(env_.engine.turns(), *source_.device, control_).Read(from, data, [this](absl::Status status) {
      Take(std::move(status));
    });
  }

  static grpc::Slice SliceOf(const runtime::hal::BufferSlice& memory) {
    using Owner = std::shared_ptr<runtime::hal::Buffer>;
    return grpc::Slice(
        memory.host_data(), memory.bytes, [](void* owner) { delete static_cast<Owner*>(owner); },
        new Owner(memory.buffer));
  }

  // A chunk has been read, after all that was before it in the queue: that may have been
  // stopped meanwhile, and have poisoned it.
  void Take(absl::Status status) {
    if (status.ok()) status = Healthy();
    mutex_.Lock();
    reading_ = false;
    waiting_.emplace(chunk_.data(), chunk_.size());
    chunk_.clear();
    if (!status.ok() && !ending_.has_value()) ending_ = std::move(status);
    PumpAndUnlock();
  }

  void OnWriteDone(bool ok) override {
    mutex_.Lock();
    sending_ = false;
    if (!ok && !ending_.has_value()) ending_ = MakeError(v1::CALL_CANCELLED, "the client does not read on");
    PumpAndUnlock();
  }

  // What waits for its turn does so no longer.
  void OnCancel() override {
    cancelled_.store(true, std::memory_order_relaxed);
    mutex_.Lock();
    if (!ending_.has_value()) ending_ = MakeError(v1::CALL_CANCELLED, "the call was cancelled");
    PumpAndUnlock();
  }
  void OnEnd() override { delete this; }

  const Admitted admitted_;
  Charge charge_;
  const ServiceEnv& env_;
  std::atomic<bool> cancelled_{false};
  Control control_;
  Buffers::Range source_;
  grpc::ByteBuffer message_;  // of the write under way

  // Of the read under way.
  uint64_t read_ = 0;
  std::vector<grpc::Slice> chunk_;

  absl::Mutex mutex_;
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::ByteBuffer> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

DownloadReactor* rpc::BufferService::Read(Admitted admitted, const grpc::ByteBuffer& request) {
  return new Download(std::move(admitted), request);
}

}  // namespace kiln::server
