#include "runtime/drivers/cuda/devices.h"

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/cuda/card.h"
#include "runtime/drivers/cuda/library.h"

namespace kiln::runtime::cuda {
namespace {

constexpr int kNoDevice = 100, kStubLibrary = 34;

// What it says of itself where that is not enough.
const char* AdviceFor(int code) {
  switch (code) {
    case kNoDevice: return "; is CUDA_VISIBLE_DEVICES set to hide the cards?";
    case kStubLibrary: return "; this is the toolkit's stand-in: take the toolkit out of the library path";
    default: return "; see what nvidia-smi says";
  }
}

absl::StatusOr<std::shared_ptr<const Library>> OpenLibrary(const std::string& path) {
  auto library = std::make_shared<Library>();
  absl::Status status = library->Bind({path});
  if (absl::IsNotFound(status)) return Annotate(absl::NotFoundError("install NVIDIA's driver"), status.message());
  if (!status.ok()) return absl::FailedPreconditionError(absl::StrCat(status.message(), "; install a newer driver"));
  const int code = library->Init.function()(0);
  if (code == 0) return library;
  return absl::UnavailableError(absl::StrCat("cuInit: ", library->ErrorText(code), AdviceFor(code)));
}

gpu::CollectiveLibrary Collectives(std::string path) {
  if (const char* given = std::getenv("KILN_LIBNCCL"); path.empty() && given != nullptr) path = given;
  return {path.empty() ? "libnccl.so.2" : path, "nccl"};
}

}  // namespace

gpu::Found FindDevices(const Options& options) {
  std::string path = options.library;
  if (const char* given = std::getenv("KILN_LIBCUDA"); path.empty() && given != nullptr) path = given;
  if (path.empty()) path = "libcuda.so.1";
  gpu::Found found;
  const auto library = OpenLibrary(path);
  if (!library.ok()) {
    found.absent.emplace_back(library.status().message());
    return found;
  }
  int count = 0;
  if (const int code = (*library)->GetDeviceCount.function()(&count); code != 0) {
    found.absent.push_back(absl::StrCat("cuDeviceGetCount: ", (*library)->ErrorText(code), AdviceFor(code)));
    return found;
  }
  if (count == 0) found.absent.push_back(absl::StrCat("the driver lists no card", AdviceFor(kNoDevice)));
  std::vector<std::unique_ptr<gpu::Card>> cards;
  for (int i = 0; i < count; ++i) {
    if (auto card = OpenCard(*library, i); card.ok()) {
      cards.push_back(*std::move(card));
    } else {
      found.absent.emplace_back(card.status().message());
    }
  }
  gpu::MakeDevices(std::move(cards), options.device, Collectives(options.collectives), found);
  return found;
}

}  // namespace kiln::runtime::cuda
