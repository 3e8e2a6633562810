#include "runtime/hal/queue.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::hal {
namespace {

class FunctionWork final : public Work {
 public:
  explicit FunctionWork(absl::AnyInvocable<void()> function) : function_(std::move(function)) {}
  void Run() override {
    std::unique_ptr<FunctionWork> self(this);
    function_();
  }

 private:
  absl::AnyInvocable<void()> function_;
};

}  // namespace

void Queue::Submit(absl::AnyInvocable<void()> function, uint64_t estimate_ns) {
  Submit(new FunctionWork(std::move(function)), estimate_ns);
}

absl::Status Queue::Drain(absl::Time deadline) {
  auto reached = std::make_shared<absl::Notification>();  // outlives a wait given up
  Submit([reached] { reached->Notify(); }, 0);
  if (reached->WaitForNotificationWithDeadline(deadline)) return absl::OkStatus();
  return MakeError(v1::DEADLINE_PASSED, "the queue was not idle by the deadline");
}

absl::Status CheckOn(const Device* device, const BufferSlice& slice) {
  KILN_RETURN_IF_ERROR(CheckSlice(slice));
  if (slice.buffer->device() == device) return absl::OkStatus();
  return MakeError(v1::BUFFER_DEVICE_MISMATCH, absl::StrCat("the buffer is on ", slice.buffer->device()->name(),
                                                            ", and the transfer on ", device->name()));
}

absl::Status CheckCopy(const Device* device, const BufferSlice& from, const BufferSlice& to) {
  KILN_RETURN_IF_ERROR(CheckOn(device, from));
  KILN_RETURN_IF_ERROR(CheckOn(device, to));
  if (from.bytes == to.bytes) return absl::OkStatus();
  return MakeError(v1::BUFFER_SIZE_MISMATCH, absl::StrCat("a copy of ", from.bytes, " bytes to ", to.bytes, " bytes"));
}

absl::Status CheckPieces(const Device* device, const std::vector<absl::string_view>& pieces, const BufferSlice& to) {
  KILN_RETURN_IF_ERROR(CheckOn(device, to));
  uint64_t bytes = 0;
  for (const absl::string_view piece : pieces) bytes += piece.size();
  if (bytes == to.bytes) return absl::OkStatus();
  return MakeError(v1::BUFFER_SIZE_MISMATCH, absl::StrCat("pieces of ", bytes, " bytes for ", to.bytes, " bytes"));
}

}  // namespace kiln::runtime::hal
