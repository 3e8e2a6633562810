#include "runtime/drivers/hip/devices.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/hip/card.h"
#include "runtime/drivers/hip/library.h"
#include "runtime/drivers/hip/topology.h"

namespace kiln::runtime::hip {
namespace {

constexpr char kKernelDriver[] = "/dev/kfd";

std::string Or(const std::string& option, const char* variable, const char* otherwise) {
  if (!option.empty()) return option;
  const char* given = std::getenv(variable);
  return given != nullptr ? given : otherwise;
}

absl::StatusOr<std::shared_ptr<const Library>> OpenLibrary(const std::string& path) {
  std::vector<std::string> names = {path};
  if (path.empty()) {
    if (access(kKernelDriver, F_OK) != 0) {
      return absl::NotFoundError(absl::StrCat("there is no ", kKernelDriver, "; load the kernel's driver amdgpu"));
    }
    names = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
  }
  auto library = std::make_shared<Library>();
  absl::Status status = library->Bind(names);
  if (absl::IsNotFound(status)) return Annotate(absl::NotFoundError("install ROCm's HIP runtime"), status.message());
  if (!status.ok()) return absl::FailedPreconditionError(absl::StrCat(status.message(), "; install ROCm 5.5 or later"));
  const int code = library->Init.function()(0);
  if (code == 0) return library;
  return absl::UnavailableError(absl::StrCat("hipInit: ", library->ErrorText(code), "; see what rocminfo says"));
}

gpu::CollectiveLibrary Collectives(std::string path) {
  if (const char* given = std::getenv("KILN_LIBRCCL"); path.empty() && given != nullptr) path = given;
  return {path.empty() ? "librccl.so.1" : path, "rccl"};
}

}  // namespace

gpu::Found FindDevices(const Options& options) {
  gpu::Found found;
  const auto library = OpenLibrary(Or(options.library, "KILN_LIBAMDHIP64", ""));
  if (!library.ok()) {
    found.absent.emplace_back(library.status().message());
    return found;
  }
  const std::string nodes = Or(options.nodes, "KILN_KFD_NODES", kNodes);
  int count = 0;
  if (const int code = (*library)->GetDeviceCount.function()(&count); code != 0) {
    found.absent.push_back(absl::StrCat("hipGetDeviceCount: ", (*library)->ErrorText(code), "; may this user open ",
                                        kKernelDriver, " and /dev/dri?"));
    return found;
  }
  if (count == 0) found.absent.emplace_back("the runtime lists no GPU; is ROCR_VISIBLE_DEVICES set to hide them?");
  std::vector<std::unique_ptr<gpu::Card>> cards;
  for (int i = 0; i < count; ++i) {
    if (auto card = OpenCard(*library, i, nodes); card.ok()) {
      cards.push_back(*std::move(card));
    } else {
      found.absent.emplace_back(card.status().message());
    }
  }
  gpu::MakeDevices(std::move(cards), options.device, Collectives(options.collectives), found);
  return found;
}

}  // namespace kiln::runtime::hip
