#include "server/cpu_core.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/cpu/core/known_core.h"
#include "runtime/drivers/cpu/core/measure_core.h"
#include "runtime/drivers/cpu/probe_target.h"

namespace kiln::server {

absl::StatusOr<v1::Target::Tuning::Core> CoreOf(const v1::ServerConfig& config, spdlog::logger& log) {
  KILN_ASSIGN_OR_RETURN(const bool told, runtime::cpu::IsToldOfCore());
  if (told || !config.measure_core()) return v1::Target::Tuning::Core();
  std::ifstream info("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(info)), std::istreambuf_iterator<char>());
  const v1::Target target = runtime::cpu::ProbeTarget(1);
  std::string cpu = runtime::cpu::CpuModel(text);
  // A virtual machine may hide what the same CPU has elsewhere.
  if (!cpu.empty()) absl::StrAppend(&cpu, ", ", 8 * target.tuning().vector_bytes(), " bits");
  const auto begin = std::chrono::steady_clock::now();
  const runtime::cpu::KnownCore known =
      runtime::cpu::FindCore(config.program_cache_dir(), cpu, [&target] { return runtime::cpu::MeasureCore(target); });
  const std::chrono::duration<double, std::micro> micros = std::chrono::steady_clock::now() - begin;
  if (!known.read.ok() && known.read.code() != absl::StatusCode::kNotFound)
    log.warn("event=core_file_rejected file={} reason=\"{}\"", known.file, absl::CEscape(known.read.message()));
  if (!known.written.ok())
    log.warn("event=core_file_not_kept file={} reason=\"{}\"", known.file, absl::CEscape(known.written.message()));
  const absl::string_view source = known.measured ? "measured" : known.core.ByteSizeLong() != 0 ? "read" : "unknown";
  log.info("event=core source={} file={} micros={:.0f} figures=\"{}\"", std::string(source), known.file, micros.count(),
           known.core.ShortDebugString());
  return known.core;
}

}  // namespace kiln::server
