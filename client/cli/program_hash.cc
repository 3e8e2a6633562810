// Hashes of programs as people give them: the first digits will do.
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/text/graph_file.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

constexpr size_t kDigits = 64, kFewest = 4;

}  // namespace

bool IsHashPrefix(const std::string& text) {
  return text.size() >= kFewest && text.size() <= kDigits &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

absl::StatusOr<std::string> FindHash(client::Client& client, const std::string& given) {
  const std::string text = absl::AsciiStrToLower(given);
  if (!IsHashPrefix(text)) {
    return MakeError(v1::BAD_ARGUMENT,
                     absl::StrCat("\"", text, "\" is no hash; `kiln programs` lists them: ", kDigits,
                                  " digits from 0 to 9 and a to f, of which the first ", kFewest, " or more will do"));
  }
  if (text.size() == kDigits) return absl::HexStringToBytes(text);
  KILN_ASSIGN_OR_RETURN(const v1::ListProgramsResponse programs, client.ListPrograms());
  std::set<std::string> found;
  for (const auto& program : programs.programs()) {
    const std::string hash = absl::BytesToHexString(program.graph_hash());
    if (absl::StartsWith(hash, text)) found.insert(hash);
  }
  if (found.size() == 1) return absl::HexStringToBytes(*found.begin());
  if (found.empty()) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("no program in the server's memory has a hash that begins with ",
                                                    text, "; `kiln programs` lists them"));
  }
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the hashes of ", found.size(), " programs begin with ", text,
                                                  "; give more digits: ", absl::StrJoin(found, ", ")));
}

absl::Status ReadUnlessHash(Cli& cli, const std::string& word) {
  if (IsHashPrefix(word)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(word));
  return absl::OkStatus();
}

absl::StatusOr<client::Program> OpenProgram(const Cli& cli, client::Client& client, const std::string& word,
                                            const v1::CompileOptions& options) {
  if (!IsHashPrefix(word)) return client.Compile(cli.graph, options);
  KILN_ASSIGN_OR_RETURN(const std::string hash, FindHash(client, word));
  return client.FindProgram(hash);
}

}  // namespace kiln::cli
