// What the compiler knows of devices, as `kiln devices --verbose` prints it.
#ifndef KILN_CLIENT_CLI_TEXT_TUNING_TEXT_H_
#define KILN_CLIENT_CLI_TEXT_TUNING_TEXT_H_

#include <string>

#include "kiln/v1/device_service.pb.h"

namespace kiln::cli {

// A table of sizes, a row a device, and one of what a core does in a cycle, of those of which that was measured. "-" is
// what is not known: the compiler takes a usual value.
std::string TuningText(const v1::ListDevicesResponse& response);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_TUNING_TEXT_H_
