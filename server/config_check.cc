// What settings may be, and which go together. Tested by config_test.cc.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "compiler/pass/passes.h"
#include "server/config.h"
#include "server/models/version_policy.h"
#include "server/port/socket_file.h"

namespace kiln::server {
namespace {

// What --gpus may name.
std::vector<std::string> GpuWords() {
  std::vector<std::string> words;
#define BACKEND(Name, kind, word, collectives) words.push_back(word);
#include "server/backends.def"
#undef BACKEND
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  return words;
}

// Some of them, each once.
bool AreGpus(absl::string_view setting) {
  std::vector<std::string> left = GpuWords();
  for (absl::string_view word : absl::StrSplit(setting, ',')) {
    const auto it = std::find(left.begin(), left.end(), word);
    if (it == left.end()) return false;
    left.erase(it);
  }
  return true;
}

absl::Status CheckReadable(absl::string_view path, const std::string& file) {
  if (access(file.c_str(), R_OK) == 0) return absl::OkStatus();
  return BadSetting(path, absl::StrCat("cannot read \"", file, "\""));
}

bool IsHttpUrl(absl::string_view url) {
  return (absl::ConsumePrefix(&url, "http://") || absl::ConsumePrefix(&url, "https://")) && !url.empty();
}

bool IsHostAndPort(absl::string_view listen) {
  const size_t colon = listen.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon != 0 && absl::SimpleAtoi(listen.substr(colon + 1), &port) &&
         port <= 65535;
}

// An address that clients may be sent to: a machine's, and a port that will be there.
absl::Status CheckAdvertised(const v1::ServerConfig& config) {
  const std::string& address = config.advertise();
  if (address.empty()) return absl::OkStatus();
  absl::string_view host = absl::string_view(address).substr(0, address.rfind(':'));
  const bool version6 = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  const auto plain = [version6](char c) { return absl::ascii_isalnum(c) || c == '.' || c == (version6 ? ':' : '-'); };
  if (!IsHostAndPort(address) || address.size() > 255 || host.empty() || !std::all_of(host.begin(), host.end(), plain))
    return BadSetting("advertise", absl::StrCat("\"", address, "\" is not host:port"));
  if (host == "0.0.0.0" || host == "::")
    return BadSetting("advertise", absl::StrCat(address, " is no machine's address; give the one that clients reach"));
  if (absl::EndsWith(address, ":0") && absl::StartsWith(config.listen(), "unix"))
    return BadSetting("advertise", "port 0 is the one that is served, and a Unix socket has none");
  return absl::OkStatus();
}

absl::Status CheckSocketFile(const v1::ServerConfig& config) {
  const std::string& mode = config.listen_mode();
  if (!absl::StartsWith(config.listen(), "unix:") && !(mode.empty() && config.listen_group().empty())) {
    return BadSetting(mode.empty() ? "listen_group" : "listen_mode",
                      absl::StrCat("is of a Unix socket's file, and ", config.listen(), " is none"));
  }
  if (mode.empty()) return absl::OkStatus();
  const absl::StatusOr<mode_t> parsed = ParseSocketMode(mode);
  if (!parsed.ok()) return BadSetting("listen_mode", parsed.status().message());
  if (!config.listen_group().empty() && (*parsed & S_IWGRP) == 0)
    return BadSetting("listen_mode", absl::StrCat(mode, " lets nobody of listen_group connect; 0660 does"));
  return absl::OkStatus();
}

// Of a port for HTTP, which does not encrypt: `why` is what it lacks, and what would be right.
absl::Status CheckHttpPort(const v1::ServerConfig& config, absl::string_view path, const std::string& listen,
                           absl::string_view why) {
  if (listen.empty()) return absl::OkStatus();
  if (absl::StartsWith(listen, "unix:") || !IsHostAndPort(listen))
    return BadSetting(path, absl::StrCat("\"", listen, "\" is not host:port"));
  if (IsLoopback(listen) || config.insecure()) return absl::OkStatus();
  return BadSetting(path, absl::StrCat(listen, " can be reached from other machines, and ", why));
}

absl::Status CheckHttpPorts(const v1::ServerConfig& config) {
  if (absl::StartsWith(config.admin_listen(), "["))
    return BadSetting("admin_listen", "is of IPv6, which this port does not speak; give 127.0.0.1");
  KILN_RETURN_IF_ERROR(CheckHttpPort(config, "http_listen", config.http_listen(),
                                     "does not encrypt tokens and tensors; listen on 127.0.0.1, with a proxy before "
                                     "it that encrypts, or set --insecure where something else does"));
  return CheckHttpPort(config, "admin_listen", config.admin_listen(),
                       "asks nobody who they are; listen on 127.0.0.1, with a proxy that asks before it, or set "
                       "--insecure where a network policy lets only the monitoring in");
}

// Identity and encryption: what is there, and whether it is enough for the address.
absl::Status CheckWhoMayUse(const v1::ServerConfig& config) {
  const v1::ServerConfig::Tls& tls = config.tls();
  if (tls.certificate().empty() != tls.key().empty()) {
    return BadSetting(tls.key().empty() ? "tls.key" : "tls.certificate", "a certificate and its key go together");
  }
  if (!tls.client_ca().empty() && tls.certificate().empty()) {
    return BadSetting("tls.client_ca", "clients show certificates to a server that has one; set tls.certificate");
  }
  if (!tls.client_ca().empty() && config.tenants().empty()) {
    return BadSetting("tls.client_ca", "nothing says whose certificates are whose; set tenants");
  }
  for (const auto& [path, file] :
       {std::make_pair("tls.certificate", &tls.certificate()), std::make_pair("tls.key", &tls.key()),
        std::make_pair("tls.client_ca", &tls.client_ca())}) {
    if (!file->empty()) KILN_RETURN_IF_ERROR(CheckReadable(path, *file));
  }
  if (IsLoopback(config.listen()) || config.insecure()) return absl::OkStatus();
  const std::string reach = absl::StrCat(config.listen(), " can be reached from other machines, and ");
  if (config.tenants().empty()) {
    return BadSetting("listen", absl::StrCat(reach,
                                             "nothing says who may use the server; set --tenants, listen on "
                                             "127.0.0.1, or set --insecure to serve anyone"));
  }
  if (tls.certificate().empty()) {
    return BadSetting("listen", absl::StrCat(reach,
                                             "tokens would travel where others can read them; set --tls_certificate "
                                             "and --tls_key, or --insecure where something else encrypts"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConfig(const v1::ServerConfig& config) {
  const absl::string_view listen = config.listen();
  if (!absl::StartsWith(listen, "unix:") && !IsHostAndPort(listen)) {
    return BadSetting("listen", absl::StrCat("\"", listen, "\" is not host:port"));
  }
  KILN_RETURN_IF_ERROR(CheckSocketFile(config));
  KILN_RETURN_IF_ERROR(CheckWhoMayUse(config));
  KILN_RETURN_IF_ERROR(CheckHttpPorts(config));
  static const auto* levels = new std::set<std::string>{"trace", "debug", "info", "warn", "error"};
  if (levels->count(config.log_level()) == 0) {
    return BadSetting("log_level",
                      absl::StrCat("\"", config.log_level(), "\" is not trace, debug, info, warn or error"));
  }
  if (config.log_format() != "text" && config.log_format() != "json") {
    return BadSetting("log_format", absl::StrCat("\"", config.log_format(), "\" is not text or json"));
  }
  if (config.drain_grace_seconds() > 86400) {
    return BadSetting("drain_grace_seconds", absl::StrCat(config.drain_grace_seconds(), " is more than a day's 86400"));
  }
  KILN_RETURN_IF_ERROR(CheckAdvertised(config));
  if (config.cpu_devices() == 0 || config.cpu_devices() > 64) {
    return BadSetting("cpu_devices", absl::StrCat(config.cpu_devices(), " is not between 1 and 64"));
  }
  if (config.gpus() != "auto" && config.gpus() != "none" && !AreGpus(config.gpus())) {
    return BadSetting("gpus", absl::StrCat("\"", config.gpus(), "\" is not auto, none, ",
                                           absl::StrJoin(GpuWords(), ", "), " or ", absl::StrJoin(GpuWords(), ",")));
  }
  if (config.gpu_memory_percent() > 100) {
    return BadSetting("gpu_memory_percent", absl::StrCat(config.gpu_memory_percent(), " is more than 100"));
  }
  if (!config.ptxas().empty() && config.ptxas() != "none" && access(config.ptxas().c_str(), X_OK) != 0) {
    return BadSetting("ptxas", absl::StrCat("\"", config.ptxas(), "\" is no program that can be run"));
  }
  if (config.meeting_seconds() == 0 || config.meeting_seconds() > 86400) {
    return BadSetting("meeting_seconds", absl::StrCat(config.meeting_seconds(), " is not between 1 and a day's 86400"));
  }
  if (config.compile_isolation() != "on" && config.compile_isolation() != "off" &&
      config.compile_isolation() != "auto") {
    return BadSetting("compile_isolation", absl::StrCat("\"", config.compile_isolation(), "\" is not on, off or auto"));
  }
  if (config.compile_limits().max_seconds() == 0 || config.compile_limits().max_seconds() > 86400) {
    return BadSetting("compile_limits.max_seconds",
                      absl::StrCat(config.compile_limits().max_seconds(), " is not between 1 and a day's 86400"));
  }
  if (config.compile_limits().max_memory_bytes() < (uint64_t{64} << 20)) {
    return BadSetting("compile_limits.max_memory_bytes", "less than 64 MiB");
  }
  if (const uint64_t all = config.compile_limits().max_total_memory_bytes(); all != 0 && all < (uint64_t{64} << 20)) {
    return BadSetting("compile_limits.max_total_memory_bytes", "less than 64 MiB; 0 is a quarter of the machine's");
  }
  if (config.mpi() != "on" && config.mpi() != "off" && config.mpi() != "auto") {
    return BadSetting("mpi", absl::StrCat("\"", config.mpi(), "\" is not on, off or auto"));
  }
  if (config.rank_silence_seconds() == 0 || config.rank_silence_seconds() > 86400) {
    return BadSetting("rank_silence_seconds",
                      absl::StrCat(config.rank_silence_seconds(), " is not between 1 and a day's 86400"));
  }
  if (config.rank_death() != "serve" && config.rank_death() != "stop") {
    return BadSetting("rank_death", absl::StrCat("\"", config.rank_death(), "\" is not serve or stop"));
  }
  if (!config.program_cache_dir().empty() && config.program_cache_disk_bytes() < (1 << 20)) {
    return BadSetting("program_cache_disk_bytes", "less than 1 MiB");
  }
  const std::string& key_file = config.program_cache_key_file();
  if (!key_file.empty() && config.program_cache_dir().empty()) {
    return BadSetting("program_cache_key_file", "there is no folder to seal entries of; set program_cache_dir as well");
  }
  if (!key_file.empty() && absl::StartsWith(key_file, absl::StrCat(config.program_cache_dir(), "/"))) {
    return BadSetting("program_cache_key_file", "whoever may write into program_cache_dir could change it there");
  }
  if (!config.warm_up().empty() && config.program_cache_dir().empty()) {
    return BadSetting("warm_up", "there is no folder to load from; set program_cache_dir as well");
  }
  if (!config.capture().empty() && config.shared_memory().max_bytes() != 0) {
    return BadSetting("capture", "what clients move by shared memory is not seen; leave shared_memory.max_bytes 0");
  }
  if (config.shared_memory().named_loopback() && config.shared_memory().named_max_bytes() == 0) {
    return BadSetting("shared_memory.named_loopback", "there is none; set shared_memory.named_max_bytes as well");
  }
  if (config.shared_memory().named_loopback() && !config.tenants().empty()) {
    return BadSetting(
        "shared_memory.named_loopback",
        "nothing would tell one tenant's memory from another's; listen on a Unix socket, with unix_user in "
        "the file of tenants");
  }
  if (!config.capture().empty() && !config.program_cache_dir().empty()) {
    return BadSetting("capture", "programs of program_cache_dir come without their graphs; capture without it");
  }
  if (const absl::Status known = compiler::CheckDisabled(DisabledPasses(config)); !known.ok()) {
    return BadSetting("disable_pass", known.message());
  }
  if (const absl::Status versions = ParseVersionPolicy(config.model_versions()).status(); !versions.ok()) {
    return BadSetting("model_versions", versions.message());
  }
  if (config.model_limits().max_seconds() == 0) return BadSetting("model_limits.max_seconds", "none");
  if (config.cpu_threads() > 4096) return BadSetting("cpu_threads", "more than 4096");
  if (config.compile_threads() > 256) return BadSetting("compile_threads", "more than 256");
  const v1::ServerConfig::SessionLimits& sessions = config.session_limits();
  if (sessions.default_lease_seconds() == 0 || sessions.default_lease_seconds() > sessions.max_lease_seconds()) {
    return BadSetting("session_limits.default_lease_seconds",
                      absl::StrCat(sessions.default_lease_seconds(), " is not between 1 and the longest lease, ",
                                   sessions.max_lease_seconds()));
  }
  const v1::ServerConfig::ConnectionLimits& connections = config.connection_limits();
  if (connections.max_streams() == 0) return BadSetting("connection_limits.max_streams", "none");
  if (connections.max_bytes() != 0 && connections.max_bytes() < LargestMessage(config)) {
    return BadSetting("connection_limits.max_bytes",
                      absl::StrCat("less than the largest message, which graph_limits.max_bytes makes ",
                                   LargestMessage(config), " bytes"));
  }
  if (config.stream_limits().max_commands() == 0) return BadSetting("stream_limits.max_commands", "none");
  const v1::ServerConfig::BeamLimits& beam = config.beam_limits();
  if (beam.max_width() > 256) return BadSetting("beam_limits.max_width", "more than 256");
  if (beam.max_width() > 0 && (beam.default_budget_ms() == 0 || beam.default_budget_ms() > beam.max_budget_ms())) {
    return BadSetting("beam_limits.default_budget_ms",
                      absl::StrCat(beam.default_budget_ms(), " is not between 1 and beam_limits.max_budget_ms, ",
                                   beam.max_budget_ms()));
  }
  if (config.trace_buffer_bytes() > uint64_t{256} << 20) return BadSetting("trace_buffer_bytes", "more than 256 MiB");
  if (const std::string& url = config.otlp_endpoint(); !url.empty() && url != "none" && !IsHttpUrl(url)) {
    return BadSetting("otlp_endpoint", absl::StrCat("\"", url, "\" is neither an http:// or https:// URL nor none"));
  }
  if (const double ratio = config.trace_sample_ratio(); !(ratio >= 0 && ratio <= 1)) {
    return BadSetting("trace_sample_ratio", absl::StrCat(ratio, " is not between 0 and 1"));
  }
  if (config.keepalive_seconds() > 86400) return BadSetting("keepalive_seconds", "more than a day");
  if (config.graph_limits().max_bytes() > (uint64_t{1} << 30)) {
    return BadSetting("graph_limits.max_bytes", "more than 1 GiB");
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
