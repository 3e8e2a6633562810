#include "client/cli/text/tuning_text.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/text/table.h"

namespace kiln::cli {
namespace {

std::string Known(double figure) { return figure > 0 ? absl::StrCat(figure) : "-"; }

// "48 KiB", "2 MiB": caches are powers of two, or few of them.
std::string CacheText(uint64_t bytes) {
  if (bytes == 0) return "-";
  if (bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, " MiB");
  return bytes % (1 << 10) == 0 ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes, " B");
}

}  // namespace

std::string TuningText(const v1::ListDevicesResponse& response) {
  std::vector<Row> sizes = {{"device", "cores", "vector bytes", "registers", "L1", "L2", "L3", "lanes", "shared"}};
  std::vector<Row> cores = {{"device", "FMAs a cycle", "FMA latency", "loads a cycle", "L2 load", "L2 store",
                             "far bytes a cycle", "gathered element"}};
  for (const v1::Device& device : response.devices()) {
    const v1::Target::Tuning& tuning = device.target().tuning();
    sizes.push_back({device.name(), Known(tuning.cores()), Known(tuning.vector_bytes()),
                     Known(tuning.vector_registers()), CacheText(tuning.l1_bytes()), CacheText(tuning.l2_bytes()),
                     CacheText(tuning.l3_bytes()), Known(tuning.lanes()), CacheText(tuning.shared_bytes())});
    if (!tuning.has_core()) continue;
    const v1::Target::Tuning::Core& core = tuning.core();
    cores.push_back({device.name(), Known(core.fmas_per_cycle()), Known(core.fma_latency()),
                     Known(core.loads_per_cycle()), Known(core.l2_load_cycles()), Known(core.l2_store_cycles()),
                     Known(core.far_bytes_per_cycle()), Known(core.gather_cycles())});
  }
  std::string text = absl::StrCat("\n", TableText(sizes), "\n");
  if (cores.size() == 1) return absl::StrCat(text, "no core was measured: schedules are those of a usual one\n\n");
  return absl::StrCat(
      text, TableText(cores),
      "in the core's cycles; FMAs, loads and stores are of whole vectors, far is beyond the L2 cache\n\n");
}

}  // namespace kiln::cli
