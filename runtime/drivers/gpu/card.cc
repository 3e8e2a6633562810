#include "runtime/drivers/gpu/card.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime::gpu {
namespace {

// HIP numbers these errors as CUDA does.
constexpr int kOutOfMemory = 2;

// Of code that another kind of card, or a newer driver, takes.
bool IsForeignCode(int code) { return code == 209 || code == 222; }

// After these, nothing works any more that the process has on the card: the card is gone, or
// its memory cannot be trusted since a kernel went astray.
bool IsLoss(int code) {
  switch (code) {
    case 4:                 // the library is shutting down
    case 46:                // the device is unavailable
    case 201:               // the context is not valid
    case 214:               // an ECC error that could not be corrected
    case 220:               // likewise of a link
    case 226:               // an error that was contained
    case 700:               // an address that is not the program's
    case 702:               // a kernel took too long for the display's driver
    case 709:               // the context is gone
    case 710:               // an assertion in a kernel
    case 714:               // a fault of the hardware's stack
    case 715:               // an illegal instruction
    case 716:               // a misaligned address
    case 717:               // an address of another space
    case 718:               // a program counter that points nowhere
    case 719:               // a kernel failed otherwise
    case 721:               // likewise of an event that no one has waited for
    case 999: return true;  // the library does not know itself
    default: return false;
  }
}

}  // namespace

absl::Status Card::Encode(const TensorMap&, EncodedTensorMap&) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat(facts_.name, ": no tensor maps: ", WhyNoTensorMaps()));
}

absl::Status Card::health() const {
  if (!is_lost_.load(std::memory_order_acquire)) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return lost_;
}

absl::Status Card::Failure(absl::string_view call, int code, absl::string_view name, absl::string_view text) {
  const std::string message = absl::StrCat(facts_.name, ": ", call, ": ", name, " (", text, ")");
  if (code == kOutOfMemory) {
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_MEMORY);
    detail.set_limit("device memory bytes");
    detail.set_limit_value(facts_.memory_bytes);
    return MakeError(std::move(detail), message);
  }
  if (IsForeignCode(code))
    return MakeError(v1::NOT_IMPLEMENTED,
                     absl::StrCat(message,
                                  "; the driver does not take this code: update it, or, if --ptxas made the "
                                  "code, start the server without"));
  return IsLoss(code) ? Lose(message) : MakeError(v1::INTERNAL_FAULT, message);
}

absl::Status Card::Waited(absl::Status status) { return status.ok() ? status : Lose(status.message()); }

absl::Status Card::Lose(absl::string_view message) {
  absl::MutexLock lock(&mutex_);
  if (lost_.ok()) {
    v1::ErrorDetail detail;
    detail.set_code(v1::PARTICIPANT_MISSING);
    detail.set_field(facts_.name);
    lost_ =
        MakeError(std::move(detail), absl::StrCat(message, "; the device is lost until the server is started again"));
    is_lost_.store(true, std::memory_order_release);
  }
  return lost_;
}

}  // namespace kiln::runtime::gpu
