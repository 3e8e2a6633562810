#include "server/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/options/version.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

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
  const google::protobuf::Descriptor* type = v1::ServerConfig::descriptor();
  const FieldDescriptor* field = nullptr;
  for (absl::string_view name : absl::StrSplit(path, '.')) {
    field = type == nullptr ? nullptr : type->FindFieldByName(std::string(name));
    KILN_CHECK(field != nullptr);
    type = field->message_type();
  }
  return field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

}  // namespace

absl::Status BadSetting(absl::string_view path, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(std::string(path));
  return MakeError(detail, absl::StrCat(path, ": ", message));
}

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
