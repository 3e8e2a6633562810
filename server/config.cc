#include "server/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/options/version.h"
#include "compiler/pass/passes.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "server/engine/sessions/server_address.h"
#include "server/models/version_policy.h"

namespace kiln::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kTeaching[] =
    "kilnd compiles UOp graphs that clients send over gRPC, keeps their data on devices and runs them.\n\n"
    "  kilnd --listen=127.0.0.1:0 --port_file=/tmp/kiln.port   a free port, written where a script finds it\n"
    "  kilnd --config=kiln.txtpb --check_config                is this file good, and what does it come to?\n\n"
    "A setting comes from its flag, else from its environment variable (KILN_ and the flag's name in capitals),\n"
    "else from the --config file (kiln.v1.ServerConfig as textproto), else from the default shown.\n"
    "SIGTERM or SIGINT stops the server gently: requests that run may finish.";

absl::Status BadSetting(absl::string_view path, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(std::string(path));
  return MakeError(detail, absl::StrCat(path, ": ", message));
}

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

// Sets the scalar field at `path` from text.
absl::Status SetField(Message& root, absl::string_view path, absl::string_view text) {
  Message* message = &root;
  const FieldDescriptor* field = nullptr;
  for (absl::string_view name : absl::StrSplit(path, '.')) {
    if (field != nullptr) message = message->GetReflection()->MutableMessage(message, field);
    field = message->GetDescriptor()->FindFieldByName(std::string(name));
    KILN_CHECK(field != nullptr);
  }
  const google::protobuf::Reflection* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection->SetString(message, field, std::string(text));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value;
      if (!absl::SimpleAtob(text, &value)) return BadSetting(path, absl::StrCat("\"", text, "\" is not true or false"));
      reflection->SetBool(message, field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value;
      if (!absl::SimpleAtoi(text, &value)) return BadSetting(path, absl::StrCat("\"", text, "\" is no 32-bit count"));
      reflection->SetUInt32(message, field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value;
      if (!absl::SimpleAtod(text, &value)) return BadSetting(path, absl::StrCat("\"", text, "\" is no number"));
      reflection->SetDouble(message, field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value;
      if (!absl::SimpleAtoi(text, &value)) return BadSetting(path, absl::StrCat("\"", text, "\" is no 64-bit count"));
      reflection->SetUInt64(message, field, value);
      return absl::OkStatus();
    }
    default: KILN_CHECK(!"ServerConfig has a field type that settings cannot express");
  }
  return absl::OkStatus();
}

// Keeps the first fault and its place.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  std::string text;
};

absl::Status MergeFile(const std::string& path, v1::ServerConfig& config) {
  std::ifstream file(path);
  if (!file) return BadSetting("config", absl::StrCat("cannot read ", path));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  v1::ServerConfig from_file;
  if (!parser.ParseFromString(text, &from_file)) return BadSetting("config", absl::StrCat(path, ", ", error.text));
  config.MergeFrom(from_file);
  return absl::OkStatus();
}

std::string FlagName(absl::string_view path) { return absl::StrReplaceAll(path, {{".", "_"}}); }

bool IsBool(absl::string_view path) {
  const FieldDescriptor* field = v1::ServerConfig::descriptor()->FindFieldByName(std::string(path));
  return field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

}  // namespace

v1::ServerConfig DefaultConfig() {
  v1::ServerConfig config;
  for (const ConfigRow& row : ConfigRows()) KILN_CHECK(SetField(config, row.path, row.fallback).ok());
  return config;
}

uint64_t LargestMessage(const v1::ServerConfig& config) {
  constexpr uint64_t kTensors = 64 << 20;
  return std::min<uint64_t>(2 * config.graph_limits().max_bytes() + kTensors, INT_MAX);
}

std::vector<std::string> DisabledPasses(const v1::ServerConfig& config) {
  std::vector<std::string> names =
      absl::StrSplit(absl::StrReplaceAll(config.disable_pass(), {{"_", " "}}), ',', absl::SkipWhitespace());
  for (std::string& name : names) absl::StripAsciiWhitespace(&name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool IsLoopback(absl::string_view listen) {
  if (absl::StartsWith(listen, "unix:")) return true;
  const absl::string_view host = listen.substr(0, listen.rfind(':'));
  // "127.example.com" is a name like any other.
  const bool numeric = host.find_first_not_of("0123456789.") == absl::string_view::npos;
  return host == "localhost" || host == "[::1]" || (numeric && absl::StartsWith(host, "127."));
}

namespace {

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
  if (const std::string& advertise = config.advertise();
      !advertise.empty() && (!IsHostAndPort(advertise) || !IsServerAddress(advertise))) {
    return BadSetting("advertise",
                      absl::StrCat("\"", advertise, "\" is not host:port of plain characters, 255 at most"));
  }
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

absl::StatusOr<Invocation> ParseCommandLine(int argc, const char* const* argv) {
  Invocation invocation;
  CLI::App app{kTeaching, "kilnd"};
  app.set_version_flag("--version", std::string(compiler::kCompilerVersion));
  std::string config_file;
  app.add_option("--config", config_file, "file of settings, kiln.v1.ServerConfig as textproto")
      ->envname("KILN_CONFIG")
      ->type_name("PATH");
  app.add_flag("--check_config", invocation.check_config, "check the settings, print what they come to, and stop");
  app.add_option("--port_file", invocation.port_file, "written, whole or not at all, with the port once it is served")
      ->type_name("PATH");

  std::map<std::string, std::string> given;
  std::map<std::string, CLI::Option*> options;
  for (const ConfigRow& row : ConfigRows()) {
    const std::string name = FlagName(row.path);
    const std::string flag = absl::StrCat("--", name);
    std::string& value = given[row.path];
    CLI::Option* option =
        IsBool(row.path) ? app.add_flag(flag, value, row.help) : app.add_option(flag, value, row.help);
    option->envname(absl::StrCat("KILN_", absl::AsciiStrToUpper(name)));
    if (!IsBool(row.path)) option->default_str(row.fallback)->type_name("");
    options[row.path] = option;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    invocation.exit_code = app.exit(error, text, text);
    invocation.message = text.str();
    return invocation;
  }

  invocation.config = DefaultConfig();
  if (!config_file.empty()) KILN_RETURN_IF_ERROR(MergeFile(config_file, invocation.config));
  for (const ConfigRow& row : ConfigRows()) {
    if (options[row.path]->count() == 0) continue;
    KILN_RETURN_IF_ERROR(SetField(invocation.config, row.path, given[row.path]));
  }
  KILN_RETURN_IF_ERROR(CheckConfig(invocation.config));
  return invocation;
}

}  // namespace kiln::server
