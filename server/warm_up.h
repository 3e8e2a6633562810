// Programs that are loaded before the server says that it is ready.
//
// The file of --warm_up names them, or, as a bundle, brings them (base/store/bundle.h).
// Nothing is compiled for it: a program that the folder does not have, because the list
// is old or the server new, is named in the log and left out. It keeps nobody waiting
// either: a server without it is as good as any after its first request, and a list that
// has gone stale must not keep every server of a fleet from service.
#ifndef KILN_SERVER_WARM_UP_H_
#define KILN_SERVER_WARM_UP_H_

#include <spdlog/logger.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/store/bundle.h"
#include "compiler/options/options.h"
#include "server/engine/engine.h"

namespace kiln::server {

// What a warm-up is to load. A bundle's programs are in `disk` afterwards.
// NOT_FOUND and BAD_ARGUMENT: the file cannot be read, or is neither.
absl::StatusOr<std::vector<store::WarmProgram>> ReadWarmUp(const std::string& path, ProgramDisk& disk,
                                                           spdlog::logger& log);

struct WarmUpCounts {
  size_t loaded = 0;
  size_t failed = 0;
};

// Loads them for the first device, one after the other, until `stop` is set. Blocks.
WarmUpCounts WarmUp(Engine& engine, const std::vector<store::WarmProgram>& programs, const std::atomic<bool>& stop,
                    spdlog::logger& log);

// The options whose Fingerprint() is `text`. BAD_ARGUMENT if it is no such text.
absl::StatusOr<compiler::Options> ParseOptions(absl::string_view text);

}  // namespace kiln::server

#endif  // KILN_SERVER_WARM_UP_H_
