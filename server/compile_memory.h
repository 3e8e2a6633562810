// Whether graphs are compiled in processes of their own, and how much of the machine's memory those may take: settings
// that others follow from. Tested by server/config_test.cc.
#ifndef KILN_SERVER_COMPILE_MEMORY_H_
#define KILN_SERVER_COMPILE_MEMORY_H_

#include <algorithm>
#include <cstdint>

#include "kiln/v1/config.pb.h"

namespace kiln::server {

inline bool CompilesApart(const v1::ServerConfig& config) {
  return config.compile_isolation() == "on" || (config.compile_isolation() == "auto" && !config.tenants().empty());
}

// Of all such processes together, on a machine of so many bytes; 0: there are none.
inline uint64_t CompileMemoryBytes(const v1::ServerConfig& config, uint64_t machine_bytes) {
  if (!CompilesApart(config)) return 0;
  const uint64_t said = config.compile_limits().max_total_memory_bytes();
  return said == 0 ? machine_bytes / 4 : said;
}

// What CPU devices hand out where nothing says how much. Together with what compiling may take, it is four fifths of
// the machine's; but at least a fifth, however much compiling may take.
inline uint64_t DefaultCpuMemoryBytes(const v1::ServerConfig& config, uint64_t machine_bytes) {
  const uint64_t both = machine_bytes / 5 * 4;
  return both - std::min(CompileMemoryBytes(config, machine_bytes), both / 4 * 3);
}

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_MEMORY_H_
