// Names of devices in the IR: one name, or the names of several that a value is
// spread over, joined by commas.
#ifndef KILN_COMPILER_IR_DEVICES_H_
#define KILN_COMPILER_IR_DEVICES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"

namespace kiln::compiler {

// The joined names. BAD_ARGUMENT for an empty name, one with a comma, one that is
// there twice, or too many.
absl::StatusOr<std::string> JoinDevices(const google::protobuf::RepeatedPtrField<std::string>& names);
std::vector<std::string> SplitDevices(absl::string_view device);

// How many: 1 also for no name, which is the request's device.
int64_t DeviceCount(absl::string_view device);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_DEVICES_H_
