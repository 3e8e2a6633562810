// kiln cache: looks after a folder of compiled programs. Needs no server, and disturbs
// none that uses the folder meanwhile.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/store/bundle.h"
#include "base/store/disk_store.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/output.h"
#include "client/cli/text/table.h"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string folder;
  std::string file;
  std::vector<std::string> graphs;
  uint64_t bytes = 0;
  bool warm_up = false;
  std::string key_file;
  bool trust_unsealed = false;
  bool json = false;
};

std::string ShortHex(const std::string& bytes) { return absl::BytesToHexString(bytes).substr(0, 16); }

absl::StatusOr<store::SealKey> KeyOf(const Flags& flags) {
  if (flags.key_file.empty()) return store::SealKey();
  return store::ReadSealKey(flags.key_file);
}

absl::StatusOr<std::unique_ptr<store::DiskStore>> Open(const Flags& flags, bool create = false) {
  KILN_ASSIGN_OR_RETURN(auto folder, store::OpenFolder(flags.folder, create));
  // What a server may keep is the server's affair: nothing is evicted unless asked for.
  store::DiskStoreOptions options;
  options.limit_bytes = std::numeric_limits<uint64_t>::max();
  KILN_ASSIGN_OR_RETURN(options.key, KeyOf(flags));
  return std::make_unique<store::DiskStore>(std::move(folder), options);
}

// Whether --graph asks for it, or for nothing in particular.
bool Wanted(const Flags& flags, const v1::StoredHeader& header) {
  if (flags.graphs.empty()) return true;
  const std::string hash = absl::BytesToHexString(header.graph_hash());
  for (const std::string& graph : flags.graphs) {
    if (absl::StartsWith(hash, graph)) return true;
  }
  return false;
}

// What a command has done: a line, or the same as JSON.
void Tell(const Flags& flags, const std::string& line, const Json& json) {
  std::fputs(flags.json ? JsonText(json).c_str() : line.c_str(), stdout);
}

// An entry that is not as it was written: a line at once, or a row of the JSON that comes in the end.
void TellBad(const Flags& flags, absl::string_view what, const std::string& name, const absl::Status& why, Json& bad) {
  const std::string message(why.message());
  if (!flags.json) std::printf("%s%s  %s\n", std::string(what).c_str(), name.c_str(), message.c_str());
  bad.push_back({{"entry", name}, {"why", message}});
}

Json RowJson(const store::ListedEntry& entry, const std::string& used) {
  Json row = {{"entry", entry.file.name}, {"bytes", entry.file.bytes}, {"used", used}};
  if (!entry.header.ok()) {
    row["unreadable"] = std::string(entry.header.status().message());
    return row;
  }
  const v1::StoredHeader& header = *entry.header;
  row["graph"] = absl::BytesToHexString(header.graph_hash());
  row["kernels"] = header.kernels();
  row["compile_us"] = header.compile_us();
  row["arch"] = header.target().arch();
  row["target"] = absl::BytesToHexString(header.target_fingerprint());
  row["compiler"] = header.compiler();
  return row;
}

absl::Status List(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const auto store, Open(flags));
  KILN_ASSIGN_OR_RETURN(const auto entries, store->List());
  std::vector<Row> rows = {{"key", "graph", "size", "kernels", "compile", "last used (UTC)", "target", "compiler"}};
  Json programs = Json::array();
  uint64_t bytes = 0;
  for (const store::ListedEntry& entry : entries) {
    bytes += entry.file.bytes;
    const std::string key = entry.file.name.substr(0, 16), size = BytesText(static_cast<double>(entry.file.bytes));
    const std::string used =
        absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixNanos(entry.file.used_ns), absl::UTCTimeZone());
    programs.push_back(RowJson(entry, used));
    if (!entry.header.ok()) {
      rows.push_back({key, "unreadable: kiln cache verify says why", size, "", "", used, "", ""});
      continue;
    }
    const v1::StoredHeader& header = *entry.header;
    rows.push_back({key, absl::BytesToHexString(header.graph_hash()), size, absl::StrCat(header.kernels()),
                    MicrosText(static_cast<double>(header.compile_us())), used,
                    absl::StrCat(header.target().arch(), " ", ShortHex(header.target_fingerprint()).substr(0, 8)),
                    header.compiler()});
  }
  Tell(flags, absl::StrCat(TableText(rows), entries.size(), " programs, ", BytesText(static_cast<double>(bytes)), "\n"),
       {{"programs", programs}, {"bytes", bytes}});
  return absl::OkStatus();
}

absl::Status Collect(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const auto store, Open(flags));
  KILN_ASSIGN_OR_RETURN(const auto eviction, store->Evict(flags.bytes));
  if (eviction.busy) return absl::UnavailableError("another process is removing entries right now; try again");
  Tell(flags,
       absl::StrCat("removed ", eviction.entries, " programs, ", BytesText(static_cast<double>(eviction.bytes)), "; ",
                    BytesText(static_cast<double>(eviction.left_bytes)), " are left\n"),
       {{"removed", eviction.entries}, {"removed_bytes", eviction.bytes}, {"left_bytes", eviction.left_bytes}});
  return absl::OkStatus();
}

// The entry in a file, if it is right in itself and under its own name.
absl::StatusOr<store::Entry> ReadWhole(store::DiskStore& store, const std::string& name) {
  KILN_ASSIGN_OR_RETURN(store::Entry entry, store.Read(name));
  KILN_RETURN_IF_ERROR(store::CheckContents(entry));
  if (store::DiskStore::FileName(entry.header.key()) != name) {
    return absl::DataLossError(absl::StrCat("stored program: its key is ", ShortHex(entry.header.key()), "…"));
  }
  return entry;
}

absl::Status Verify(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const auto store, Open(flags));
  KILN_ASSIGN_OR_RETURN(const auto entries, store->List());
  size_t good = 0;
  Json bad = Json::array();
  for (const store::ListedEntry& listed : entries) {
    const absl::Status status = ReadWhole(*store, listed.file.name).status();
    if (status.code() == absl::StatusCode::kNotFound) continue;  // evicted meanwhile
    good += status.ok() ? 1 : 0;
    if (!status.ok()) TellBad(flags, "", listed.file.name, status, bad);
  }
  const size_t worse = bad.size();
  Tell(flags, absl::StrCat(good, " good, ", worse, " bad\n"), {{"good", good}, {"bad", std::move(bad)}});
  if (worse == 0) return absl::OkStatus();
  return MakeError(v1::CORRUPT_ENTRY, absl::StrCat(worse, " of ", good + worse, " stored programs are not as written"));
}

// The programs as a list, each once whatever it was compiled by and for.
absl::Status ExportList(const Flags& flags, const std::vector<store::ListedEntry>& entries) {
  std::vector<store::WarmProgram> programs;
  std::set<std::pair<std::string, std::string>> seen;
  for (const store::ListedEntry& entry : entries) {
    if (!entry.header.ok() || !Wanted(flags, *entry.header)) continue;
    if (!seen.emplace(entry.header->graph_hash(), entry.header->options()).second) continue;
    programs.push_back({*GraphHash::FromBytes(entry.header->graph_hash()), entry.header->options()});
  }
  KILN_RETURN_IF_ERROR(WriteText(store::PrintWarmList(programs), flags.file));
  Tell(flags, absl::StrCat(programs.size(), " programs listed in ", flags.file, "\n"),
       {{"programs", programs.size()}, {"file", flags.file}});
  return absl::OkStatus();
}

absl::Status Export(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const auto store, Open(flags));
  KILN_ASSIGN_OR_RETURN(const auto entries, store->List());
  if (flags.warm_up) return ExportList(flags, entries);
  store::BundleWriter bundle(flags.file, store->key());
  size_t count = 0;
  Json bad = Json::array();
  for (const store::ListedEntry& listed : entries) {
    if (listed.header.ok() && !Wanted(flags, *listed.header)) continue;
    auto entry = ReadWhole(*store, listed.file.name);
    if (!entry.ok()) {
      if (entry.status().code() == absl::StatusCode::kNotFound) continue;
      TellBad(flags, "left out: ", listed.file.name, entry.status(), bad);
      continue;
    }
    KILN_RETURN_IF_ERROR(bundle.Add(*entry));
    ++count;
  }
  KILN_RETURN_IF_ERROR(bundle.Finish());
  Tell(flags, absl::StrCat(count, " programs in ", flags.file, ", ", bad.size(), " bad ones left out\n"),
       {{"programs", count}, {"file", flags.file}, {"left_out", bad}});
  return absl::OkStatus();
}

absl::Status Import(const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const store::SealKey key, KeyOf(flags));
  using Trust = store::BundleReader::Trust;
  KILN_ASSIGN_OR_RETURN(auto bundle, store::BundleReader::Open(
                                         flags.file, key, flags.trust_unsealed ? Trust::kUnsealed : Trust::kSealed));
  KILN_ASSIGN_OR_RETURN(const auto store, Open(flags, /*create=*/true));
  Json refused = Json::array();
  KILN_ASSIGN_OR_RETURN(const store::ImportCounts counts,
                        store::Import(bundle, *store, [&](const store::Entry& entry, const absl::Status& status) {
                          if (status.ok()) return;
                          if (!flags.json) std::printf("refused: %s\n", std::string(status.message()).c_str());
                          refused.push_back({{"graph", absl::BytesToHexString(entry.header.graph_hash())},
                                             {"why", std::string(status.message())}});
                        }));
  Tell(flags,
       absl::StrCat(counts.taken, " programs taken, ", counts.there, " there already, ", counts.refused, " refused\n"),
       {{"taken", counts.taken}, {"there", counts.there}, {"refused", refused}});
  if (counts.refused == 0) return absl::OkStatus();
  return MakeError(v1::CORRUPT_ENTRY, absl::StrCat(counts.refused, " entries of the bundle are not as written"));
}

CLI::App* Add(CLI::App& group, Cli& cli, const std::shared_ptr<Flags>& flags, const char* name, const char* what,
              absl::Status (*action)(const Flags&)) {
  CLI::App* command = group.add_subcommand(name, what);
  command->add_option("folder", flags->folder, "What kilnd has as --program_cache_dir")
      ->envname("KILN_PROGRAM_CACHE_DIR")
      ->required();
  command->add_option("--key_file", flags->key_file, "What kilnd has as --program_cache_key_file")
      ->envname("KILN_PROGRAM_CACHE_KEY_FILE");
  command->add_flag("--json", flags->json, "The same as JSON");
  command->callback([flags, action, &cli] { cli.action = [flags, action](Cli&) { return action(*flags); }; });
  return command;
}

}  // namespace

void AddCache(CLI::App& app, Cli& cli) {
  CLI::App* group = app.add_subcommand("cache", "Look after a folder of compiled programs; servers may be using it");
  group->footer(
      "Examples, with the folder of kilnd --program_cache_dir=DIR:\n"
      "  kiln cache ls DIR                          what is there, the last used first\n"
      "  kiln cache verify DIR                      is every entry as it was written?  exits with 1 if not\n"
      "  kiln cache gc DIR --bytes 1GB              remove the least recently used until 1 GB is left\n"
      "  kiln cache export DIR bundle.kiln          all of it in one file\n"
      "  kiln cache import OTHER_DIR bundle.kiln    and into another folder, each entry checked\n"
      "  kiln cache export DIR list.txt --warm_up   names alone: kilnd --warm_up=list.txt is not ready before\n"
      "                                             it has loaded them\n"
      "An entry is machine code, and runs as the server does. Without a key, checks find what a disk broke, not\n"
      "who wrote an entry: import only what comes from servers that you trust. With --key_file, an entry counts\n"
      "if it was sealed with that key.");
  group->require_subcommand(1);
  const auto flags = std::make_shared<Flags>();
  Add(*group, cli, flags, "ls", "List the programs", List);
  Add(*group, cli, flags, "verify", "Read every entry and check it", Verify);
  Add(*group, cli, flags, "gc", "Remove the least recently used, and what dead writers left", Collect)
      ->add_option("--bytes", flags->bytes, "Most bytes to leave; 0 leaves nothing")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->required();
  CLI::App* out = Add(*group, cli, flags, "export", "Write the programs to one file", Export);
  out->add_option("file", flags->file, "The bundle, or the list, to write")->required();
  out->add_option("--graph", flags->graphs, "Only programs of graphs whose hash begins so; may be repeated");
  out->add_flag("--warm_up", flags->warm_up, "Write a list for kilnd --warm_up, not the programs");
  CLI::App* in = Add(*group, cli, flags, "import", "Take the programs of a bundle", Import);
  in->add_option("file", flags->file, "A bundle")->required();
  in->add_flag("--trust_unsealed", flags->trust_unsealed,
               "With a key: take entries without a seal, too, and seal them; whoever made the bundle is trusted");
}

}  // namespace kiln::cli
