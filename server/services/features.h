// What a client may rely on, by name; it never reads a version string.
#ifndef KILN_SERVER_SERVICES_FEATURES_H_
#define KILN_SERVER_SERVICES_FEATURES_H_

#include <cstdint>
#include <iterator>
#include <vector>

#include "server/services/env.h"

namespace kiln::server {

inline constexpr uint32_t kProtocolVersion = 1;

inline constexpr const char* kFeatures[] = {
    "execute_by_hash",    // ExecuteRequest.graph_hash without a graph
    "inline_arguments",   // Argument.tensor
    "inline_results",     // RESULT_INLINE
    "views",              // BufferService.View and BufferRef.offset
    "explain",            // DebugService.Explain
    "replay",             // KernelService.RecordSequence and ReplaySequence
    "variables",          // Argument.integer
    "gradient",           // KernelService.Gradient
    "source",             // ExplainRequest.source
    "sessions",           // SessionService, and handles that end with their owner
    "submit",             // KernelService.Submit, resumable under a session
    "watch_devices",      // DeviceService.Watch
    "collectives",        // CollectiveService
    "submit_collective",  // SubmitRequest.collective
    "tune",               // DebugService.Tune and CompileOptions.beam
    "usage",              // SessionService.Usage
    "trace",              // DebugService.Trace
    "state",              // DebugService.State
    "evict",              // DebugService.Evict
    "time",               // DebugService.Time
};

// These, and what the server's owner allows.
inline std::vector<const char*> FeaturesOf(const ServiceEnv& env) {
  std::vector<const char*> features(std::begin(kFeatures), std::end(kFeatures));
  if (env.shared_memory != nullptr) features.push_back("shared_memory");  // BufferService.MapSharedMemory
  if (env.loader != nullptr) features.push_back("load");                  // BufferService.Load
  if (env.engine.exports()) features.push_back("export");                 // DebugService.Export
  if (env.engine.imports()) features.push_back("import");                 // DebugService.Import
  return features;
}

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_FEATURES_H_
