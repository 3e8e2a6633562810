// kiln play: what a server was sent, once more, and whether it answers the same.
#include "client/play/play.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/capture/capture_file.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/text/table.h"
#include "client/demo/server_process.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string file;
  std::string backend;
  std::string kilnd;
  std::string data_folder;
};

// Of this build: beside `kiln`, or where Bazel puts both.
std::string KilndBeside() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::filesystem::path& path : {folder / "kilnd", folder / ".." / ".." / "server" / "kilnd"}) {
    if (std::filesystem::exists(path, error)) return path.lexically_normal().string();
  }
  return "";
}

// A server for this alone, with as many devices as the captured one had.
absl::StatusOr<std::unique_ptr<demo::ServerProcess>> StartServer(const Flags& flags, const v1::CaptureHeader& header) {
  const std::string path = flags.kilnd.empty() ? KilndBeside() : flags.kilnd;
  if (path.empty()) return MakeError(v1::BAD_ARGUMENT, "there is no kilnd beside kiln; say where with --kilnd");
  std::vector<std::string> words = {absl::StrCat("--cpu_devices=", std::max(header.devices_size(), 1))};
  if (!flags.data_folder.empty()) words.push_back(absl::StrCat("--data_folder=", flags.data_folder));
  return demo::ServerProcess::Start(path, words);
}

const char* EndingText(capture::Reader::Ending ending) {
  switch (ending) {
    case capture::Reader::Ending::kFinished: return "the capture is whole";
    case capture::Reader::Ending::kFull: return "the capture ends where it was full (--capture_max_bytes)";
    case capture::Reader::Ending::kCut: return "the capture ends without its end mark: the server was stopped hard";
    case capture::Reader::Ending::kTorn: return "the capture's last entry is torn: the server was stopped hard";
  }
  return "";
}

void PrintTimes(const play::Report& report) {
  std::vector<std::pair<std::string, play::ProgramTime>> programs(report.programs.begin(), report.programs.end());
  if (programs.empty()) return;
  std::sort(programs.begin(), programs.end(),
            [](const auto& a, const auto& b) { return a.second.device_us > b.second.device_us; });
  std::vector<Row> rows = {{"program", "runs", "on the device", "mean", "least"}};
  for (const auto& [hash, time] : programs) {
    rows.push_back({hash.substr(0, 16), absl::StrCat(time.runs), MicrosText(time.device_us),
                    MicrosText(time.device_us / static_cast<double>(time.runs)), MicrosText(time.least_us)});
  }
  std::fputs(TableText(rows).c_str(), stdout);
}

std::string DifferenceText(const play::Difference& found) {
  std::string text = absl::StrCat("call ", found.call, ", ", found.method);
  if (found.command != 0) absl::StrAppend(&text, ", command ", found.command);
  if (!found.program.empty()) absl::StrAppend(&text, ", program ", found.program);
  if (!found.mismatch.where.empty()) absl::StrAppend(&text, ", ", found.mismatch.where);
  return absl::StrCat(text, "\n  captured: ", found.mismatch.captured, "\n  played: ", found.mismatch.played);
}

absl::Status PlayFile(const Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const auto reader, capture::Reader::Open(flags.file));
  std::unique_ptr<demo::ServerProcess> process;
  std::string address = cli.server;
  if (!flags.backend.empty()) {
    KILN_ASSIGN_OR_RETURN(process, StartServer(flags, reader->header()));
    address = process->address();
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A server that is begun for this wants to know nobody.
  const client::CredentialOptions credentials = process == nullptr ? cli.credentials : client::CredentialOptions();
  KILN_RETURN_IF_ERROR(client::CheckCredentials(credentials, address));
  client::BearerSource bearer(credentials);
  const auto channel = grpc::CreateCustomChannel(address, client::ChannelCredentialsOf(credentials), arguments);
  KILN_ASSIGN_OR_RETURN(const play::Report report, play::Play(*reader, channel, &bearer));
  std::printf("%s calls, %s commands of streams: %s answers as captured (%s), %s not comparable; %s\n",
              absl::StrCat(report.calls).c_str(), absl::StrCat(report.commands).c_str(),
              absl::StrCat(report.equal).c_str(), BytesText(static_cast<double>(report.equal_bytes)).c_str(),
              absl::StrCat(report.passed_over).c_str(), EndingText(reader->ending()));
  PrintTimes(report);
  if (process != nullptr) KILN_RETURN_IF_ERROR(process->Stop());
  if (report.differences == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(report.differences, " answers differ; the first: ", DifferenceText(*report.first)));
}

}  // namespace

void AddPlay(CLI::App& app, Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("play", "Send a server what another was sent, and compare the answers");
  command->footer(
      "A capture is what `kilnd --capture=FILE` wrote: all requests of all clients that change anything, with their\n"
      "data, and the answers. It has no tokens, and no machine code: graphs are compiled again.\n"
      "  kilnd --capture=session.kilncap          capture, until the server ends or --capture_max_bytes are there\n"
      "  kiln play session.kilncap --backend cpu  on a server of its own; exits with 1 if an answer differs\n"
      "  kiln play session.kilncap --server H:P   on one that runs; it should have no other clients\n"
      "Answers are compared bit for bit. The first that differs is named: which call, which program's result,\n"
      "which element. Another kind of CPU may round sums otherwise; the same kind must not.\n"
      "Times are those that programs took on the device.");
  command->add_option("file", flags->file, "The capture")->required()->check(CLI::ExistingFile);
  command->add_option("--backend", flags->backend, "Start a server for it, with devices of this kind")
      ->check(CLI::IsMember({"cpu"}));
  command->add_option("--kilnd", flags->kilnd, "The server to start; by default the one beside kiln");
  command->add_option("--data_folder", flags->data_folder, "Of the server to start, where the captured one had one");
  command->callback([flags, &cli] { cli.action = [flags](Cli& all) { return PlayFile(all, *flags); }; });
}

}  // namespace kiln::cli
