// kiln programs: what the server has compiled.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/table.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

absl::Status Programs(Cli& cli, bool json) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::ListProgramsResponse response, client->ListPrograms());
  if (json) {
    std::fputs(MessageJson(response).c_str(), stdout);
    return absl::OkStatus();
  }
  std::vector<Row> rows = {{"hash", "device", "hits", "compile", "size", "kernels", "signature"}};
  for (const v1::ListProgramsResponse::Program& program : response.programs()) {
    const auto hash = GraphHash::FromBytes(program.graph_hash());
    rows.push_back({hash.has_value() ? hash->Hex() : "?", program.device(), absl::StrCat(program.hits()),
                    MicrosText(static_cast<double>(program.compile_us())),
                    BytesText(static_cast<double>(program.bytes())), absl::StrCat(program.kernels()),
                    SignatureText(program.signature())});
  }
  std::fputs(TableText(rows).c_str(), stdout);
  std::printf("%zu programs; %s hits, %s misses, %s compiles since the server started\n", rows.size() - 1,
              absl::StrCat(response.hits()).c_str(), absl::StrCat(response.misses()).c_str(),
              absl::StrCat(response.compiles()).c_str());
  if (response.has_disk()) {
    const v1::ListProgramsResponse::Disk& disk = response.disk();
    std::printf("on disk: %s hits, %s misses, %s bad entries; %s stored, %s not\n", absl::StrCat(disk.hits()).c_str(),
                absl::StrCat(disk.misses()).c_str(), absl::StrCat(disk.rejects()).c_str(),
                absl::StrCat(disk.stores()).c_str(), absl::StrCat(disk.store_failures()).c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddPrograms(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("programs", "List the programs in the server's cache");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "All of it as JSON: kiln.v1.ListProgramsResponse; hashes are base64");
  command->footer("Example:\n  kiln programs      then: kiln explain HASH, of which the first digits will do");
  command->callback([&cli, json] { cli.action = [json](Cli& asked) { return Programs(asked, *json); }; });
}

}  // namespace kiln::cli
