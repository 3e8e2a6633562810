// From an Executable to what can run on one device.
#ifndef KILN_RUNTIME_EXEC_LOAD_H_
#define KILN_RUNTIME_EXEC_LOAD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "base/account.h"
#include "kiln/v1/executable.pb.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/hal/device.h"

namespace kiln::runtime {

// Checks every index, offset, size and ISA feature, links the code and copies
// the constants. Takes about a millisecond; any number of threads may load at
// once. A bad message is INTERNAL_FAULT with the field named, since no client
// sends one; OUT_OF_MEMORY if the constants do not fit. The message is read
// during the call only; `device` must outlive the program. The constants are within what is
// guaranteed to `account` (runtime/hal/guarantees.h), which may be null.
absl::StatusOr<std::shared_ptr<LoadedExecutable>> Load(const v1::Executable& executable, hal::Device& device,
                                                       const Account* account = nullptr);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_LOAD_H_
