// What the server knows of the core that it computes on.
#ifndef KILN_SERVER_CPU_CORE_H_
#define KILN_SERVER_CPU_CORE_H_

#include <spdlog/fwd.h>

#include "absl/status/statusor.h"
#include "kiln/v1/config.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::server {

// Of a file in the folder of programs, or measured now, on this thread; the log says which, and why a file was no good.
// Empty if `config` wants no measurement, or KILN_CPU_TARGET says which core it is; BAD_ARGUMENT if that is no text
// that it may be.
absl::StatusOr<v1::Target::Tuning::Core> CoreOf(const v1::ServerConfig& config, spdlog::logger& log);

}  // namespace kiln::server

#endif  // KILN_SERVER_CPU_CORE_H_
