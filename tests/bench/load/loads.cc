#include "tests/bench/load/loads.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "server/identity/tenants.h"

namespace kiln::bench {

Folder::Folder() {
  std::string path = (std::filesystem::temp_directory_path() / "kiln_bench_XXXXXX").string();
  KILN_CHECK(mkdtemp(path.data()) != nullptr);
  path_ = path;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::Write(const std::string& name, const std::string& text) const {
  const std::string path = absl::StrCat(path_, "/", name);
  std::ofstream file(path);
  file << text;
  file.close();
  KILN_CHECK(static_cast<bool>(file));
  return path;
}

std::string TokenOf(const std::string& name) { return "secret of " + name; }

std::string TenantText(const std::string& name, const std::string& more) {
  const server::Sha256 digest = server::Sha256Of(TokenOf(name));
  const std::string hexadecimal = absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
  return absl::StrCat("tenant { name: \"", name, "\" token { sha256: \"", hexadecimal, "\" } ", more, " }\n");
}

namespace {

// Returns the number of the last of a hundred sines.
int WriteSines(const std::string& elements, std::string& text) {
  text = absl::StrCat("0 CONST [] weakint ", elements, "\n1 PARAM [0] slot=0 dtype=float32\n");
  int last = 1;
  for (int i = 0; i < 100; ++i, ++last) absl::StrAppend(&text, last + 1, " SIN [", last, "]\n");
  return last;
}

}  // namespace

std::string SinesText(const std::string& elements) {
  std::string text;
  const int last = WriteSines(elements, text);
  return absl::StrCat(text, last + 1, " STORE [1, ", last, "]\n", last + 2, " AFTER [1, ", last + 1, "]\n", last + 3,
                      " TUPLE [", last + 2, "]\n");
}

std::string SumOfSinesText(const std::string& elements) {
  std::string text;
  const int last = WriteSines(elements, text);
  return absl::StrCat(text, last + 1, " REDUCE [", last, "] ADD axes=(0)\n", last + 2, " TUPLE [", last + 1, "]\n");
}

v1::Graph SinesOf(int64_t elements) { return *ParseGraph(SinesText(absl::StrCat(elements))); }

std::unique_ptr<load::Generator> MakeLoad(const std::string& address, const std::string& mix) {
  client::ClientOptions options;
  options.credentials = {};
  options.connect_timeout = absl::Seconds(60);
  const auto parsed = load::ParseMix(mix, "mix");
  KILN_CHECK(parsed.ok() && load::CheckMix(*parsed).ok());
  auto made = load::Generator::Make(address, options, *parsed, /*seed=*/1);
  if (!made.ok()) std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
  KILN_CHECK(made.ok());
  return *std::move(made);
}

const load::ClassResult& ResultOf(const std::vector<load::ClassResult>& results, const std::string& name) {
  const auto found =
      std::find_if(results.begin(), results.end(), [&](const load::ClassResult& each) { return each.name == name; });
  KILN_CHECK(found != results.end());
  return *found;
}

}  // namespace kiln::bench
