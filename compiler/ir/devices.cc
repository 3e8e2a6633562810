#include "compiler/ir/devices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace kiln::compiler {

absl::StatusOr<std::string> JoinDevices(const google::protobuf::RepeatedPtrField<std::string>& names) {
  constexpr int kMaxDevices = 1024;
  if (names.size() > kMaxDevices) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a tuple of ", names.size(), " devices; at most ", kMaxDevices));
  }
  std::vector<std::string> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i].empty() || sorted[i].find(',') != std::string::npos) {
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("\"", sorted[i], "\" is no name of a device"));
    }
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("device ", sorted[i], " is twice in a tuple of devices"));
    }
  }
  return absl::StrJoin(names, ",");
}

std::vector<std::string> SplitDevices(absl::string_view device) {
  return absl::StrSplit(device, ',', absl::SkipEmpty());
}

int64_t DeviceCount(absl::string_view device) { return 1 + std::count(device.begin(), device.end(), ','); }

}  // namespace kiln::compiler
