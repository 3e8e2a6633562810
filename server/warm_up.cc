#include "server/warm_up.h"

#include <spdlog/spdlog.h>

#include <fstream>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/error.h"

namespace kiln::server {
namespace {

constexpr size_t kProgress = 100;  // programs between two lines of the log

absl::StatusOr<std::vector<store::WarmProgram>> TakeBundle(const std::string& path, ProgramDisk& disk,
                                                           spdlog::logger& log) {
  KILN_ASSIGN_OR_RETURN(auto bundle, store::BundleReader::Open(path, disk.store().key()));
  std::vector<store::WarmProgram> programs;
  std::set<std::pair<std::string, std::string>> seen;  // of several targets, say
  const auto counts = store::Import(bundle, disk.store(), [&](const store::Entry& entry, const absl::Status& status) {
    if (!status.ok()) {
      log.warn("event=warm_up_failed graph= reason=\"{}\"", absl::CEscape(status.message()));
    } else if (seen.emplace(entry.header.graph_hash(), entry.header.options()).second) {
      programs.push_back({*GraphHash::FromBytes(entry.header.graph_hash()), entry.header.options()});
    }
  });
  // A full disk, or a bundle that was cut: what there is will do.
  if (!counts.ok()) log.warn("event=warm_up_failed graph= reason=\"{}\"", absl::CEscape(counts.status().message()));
  return programs;
}

absl::Status LoadOne(Engine& engine, const store::WarmProgram& program) {
  KILN_ASSIGN_OR_RETURN(const compiler::Options options, ParseOptions(program.options));
  absl::Status status;
  absl::Notification done;
  engine.Load(program.graph_hash.Bytes(), "", options, {}, [&](absl::StatusOr<CompileResult> result) {
    status = result.status();
    done.Notify();
  });
  done.WaitForNotification();
  return status;
}

}  // namespace

absl::StatusOr<compiler::Options> ParseOptions(absl::string_view text) {
  compiler::Options options;
  const std::pair<absl::string_view, bool*> flags[] = {{"contraction", &options.contraction},
                                                       {"deterministic", &options.deterministic},
                                                       {"fast_math", &options.fast_math},
                                                       {"strict", &options.strict},
                                                       {"guard_arrays", &options.guard_arrays}};
  const std::pair<absl::string_view, uint32_t*> numbers[] = {{"beam=", &options.beam},
                                                             {"budget=", &options.beam_budget_ms}};
  constexpr absl::string_view kConstants = "constants=";
  constexpr absl::string_view kDisabled = "disabled=";
  const size_t disabled = text.find(kDisabled);
  if (disabled != absl::string_view::npos && disabled + kDisabled.size() < text.size()) {
    options.disabled_passes = absl::StrSplit(text.substr(disabled + kDisabled.size()), ',');
  }
  for (const absl::string_view word : absl::StrSplit(text.substr(0, disabled), ' ')) {
    for (const auto& [name, flag] : flags) {
      if (word == absl::StrCat(name, "=0")) *flag = false;
      if (word == absl::StrCat(name, "=1")) *flag = true;
    }
    // What is no number shows in the end: the text is then another.
    for (const auto& [name, number] : numbers) {
      if (absl::StartsWith(word, name)) std::ignore = absl::SimpleAtoi(word.substr(name.size()), number);
    }
    if (!absl::StartsWith(word, kConstants) || word.size() == kConstants.size()) continue;
    for (const absl::string_view slot : absl::StrSplit(word.substr(kConstants.size()), ','))
      std::ignore = absl::SimpleAtoi(slot, &options.constants.emplace_back());
  }
  if (options.Fingerprint() == text) return options;
  return MakeError(v1::BAD_ARGUMENT,
                   absl::StrCat("\"", absl::CEscape(text), "\" are not this compiler's options, as in \"",
                                compiler::Options().Fingerprint(), "\""));
}

absl::StatusOr<std::vector<store::WarmProgram>> ReadWarmUp(const std::string& path, ProgramDisk& disk,
                                                           spdlog::logger& log) {
  if (store::IsBundle(path)) return TakeBundle(path, disk, log);
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("warm_up: cannot read ", path));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto programs = store::ParseWarmList(text);
  if (!programs.ok()) return Annotate(programs.status(), absl::StrCat("warm_up: ", path));
  return programs;
}

WarmUpCounts WarmUp(Engine& engine, const std::vector<store::WarmProgram>& programs, const std::atomic<bool>& stop,
                    spdlog::logger& log) {
  const absl::Time begin = SteadyNow();
  WarmUpCounts counts;
  for (const store::WarmProgram& program : programs) {
    if (stop.load()) return counts;
    const absl::Status status = LoadOne(engine, program);
    ++(status.ok() ? counts.loaded : counts.failed);
    if (!status.ok()) {
      log.warn("event=warm_up_failed graph={} reason=\"{}\"", program.graph_hash.Hex(),
               absl::CEscape(status.message()));
    }
    if ((counts.loaded + counts.failed) % kProgress == 0) {
      log.info("event=warming programs={} loaded={} failed={}", programs.size(), counts.loaded, counts.failed);
    }
  }
  log.info("event=warmed programs={} loaded={} failed={} micros={}", programs.size(), counts.loaded, counts.failed,
           absl::ToInt64Microseconds(SteadyNow() - begin));
  return counts;
}

}  // namespace kiln::server
