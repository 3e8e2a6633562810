// kiln programs: what the server has compiled, and how it gets to another one.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
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

struct Bundle {
  std::string file;
  bool all = false;
};

// The file appears under its name when it is whole.
absl::Status Export(Cli& cli, const Bundle& bundle) {
  const absl::Status unwritten = MakeError(v1::BAD_ARGUMENT, absl::StrCat("cannot write ", bundle.file));
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  // It holds graphs and code, perhaps of every tenant: for this user's eyes alone, and no link that somebody has laid.
  const std::string draft = absl::StrCat(bundle.file, ".", getpid());
  const int made = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (made < 0) return unwritten;
  close(made);
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  const auto exported = client->ExportPrograms(bundle.all, [&file](const std::string& piece) {
    file << piece;
    return file.good();
  });
  const bool full = !file;
  file.close();
  if (full || !file || !exported.ok() || std::rename(draft.c_str(), bundle.file.c_str()) != 0) {
    std::remove(draft.c_str());
    return full || exported.ok() ? unwritten : exported.status();
  }
  std::printf("%u programs in %s, %u left out\n", exported->programs(), bundle.file.c_str(), exported->left_out());
  return absl::OkStatus();
}

absl::Status Import(Cli& cli, const Bundle& bundle) {
  constexpr std::streamsize kPieceBytes = 1 << 20;
  std::ifstream file(bundle.file, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", bundle.file));
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::ImportResponse imported, client->ImportPrograms([&file] {
    std::string piece(kPieceBytes, '\0');
    file.read(piece.data(), kPieceBytes);
    piece.resize(static_cast<size_t>(file.gcount()));
    return piece;
  }));
  std::printf("%u programs taken, %u not for this server\n", imported.programs(), imported.unfit());
  for (const v1::ImportResponse::Unfit& unfit : imported.first_unfit())
    std::printf("  %s: another %s\n", absl::BytesToHexString(unfit.graph_hash()).c_str(), unfit.field().c_str());
  return absl::OkStatus();
}

CLI::App* AddBundle(CLI::App& group, Cli& cli, const std::shared_ptr<Bundle>& bundle, const char* name,
                    const char* what, absl::Status (*action)(Cli&, const Bundle&)) {
  CLI::App* command = group.add_subcommand(name, what);
  command->add_option("file", bundle->file, "The bundle")->required();
  command->callback(
      [&cli, bundle, action] { cli.action = [bundle, action](Cli& asked) { return action(asked, *bundle); }; });
  return command;
}

}  // namespace

void AddPrograms(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("programs", "List the server's programs, or carry them to another server");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "All of it as JSON: kiln.v1.ListProgramsResponse; hashes are base64");
  command->footer(
      "Examples:\n"
      "  kiln programs                          then: kiln explain HASH, of which the first digits will do\n"
      "  kiln programs export warm.kiln         one's own that are on the server's disk, in one file\n"
      "  kiln programs export all.kiln --all    every tenant's: needs the right to administer\n"
      "  kiln programs import warm.kiln --server OTHER:7437\n"
      "                                         the other one has them without compiling; needs that right, too\n"
      "A program is machine code: a server takes those alone that are sealed with its own key, so both have one\n"
      "--program_cache_key_file. Each goes to the tenant of the name that it had, or to who imports it.");
  command->callback([&cli, command, json] {
    if (!command->get_subcommands().empty()) return;
    cli.action = [json](Cli& asked) { return Programs(asked, *json); };
  });
  command->require_subcommand(0, 1);
  const auto bundle = std::make_shared<Bundle>();
  AddBundle(*command, cli, bundle, "export", "Write those on the server's disk to a file", Export)
      ->add_flag("--all", bundle->all, "Of every tenant");
  AddBundle(*command, cli, bundle, "import", "Have the server take those of a file", Import);
}

}  // namespace kiln::cli
