// Goldens: one file holds the command, the input and the expected output of a
// pass.
//
//   # RUN: kiln_opt expand --vector_bytes=16
//   <input in the numbered text form>
//   # ----
//   <expected output>
//
// `./dev bless` runs this test with KILN_BLESS set to the folder of
// the goldens in the source tree; it then writes what it gets.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/tools/passes.h"

namespace kiln::compiler {
namespace {

namespace fs = std::filesystem;

constexpr char kSeparator[] = "# ----\n";

struct Golden {
  std::string pass;
  PassSettings settings;
  std::string head;  // all up to and including the separator
  std::string input;
  std::string expected;
};

std::string ReadFile(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Golden Parse(const std::string& text) {
  Golden golden;
  const size_t separator = text.find(kSeparator);
  golden.input = text.substr(0, separator);
  golden.head = golden.input + kSeparator;
  if (separator != std::string::npos) golden.expected = text.substr(separator + sizeof(kSeparator) - 1);
  const std::string first = text.substr(0, text.find('\n'));
  const std::vector<std::string> words = absl::StrSplit(first, ' ', absl::SkipEmpty());
  if (words.size() > 3 && words[0] == "#" && words[1] == "RUN:") golden.pass = words[3];
  golden.settings.vector_bytes = 16;
  for (absl::string_view word : words) {
    if (absl::ConsumePrefix(&word, "--vector_bytes=")) {
      EXPECT_TRUE(absl::SimpleAtoi(word, &golden.settings.vector_bytes));
    } else if (absl::ConsumePrefix(&word, "--target=")) {
      golden.settings.target = std::string(word);
    } else if (absl::ConsumePrefix(&word, "--features=")) {
      golden.settings.features = absl::StrSplit(word, ',');
    } else if (absl::ConsumePrefix(&word, "--constants=")) {
      for (absl::string_view slot : absl::StrSplit(word, ',')) {
        golden.settings.constants.push_back(0);
        EXPECT_TRUE(absl::SimpleAtoi(slot, &golden.settings.constants.back()));
      }
    } else {
      EXPECT_FALSE(absl::StartsWith(word, "--")) << word;
    }
  }
  return golden;
}

std::vector<fs::path> GoldensUnder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".uop") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Golden, EveryPassStillGivesWhatItsFileSays) {
  const char* bless = std::getenv("KILN_BLESS");
  const std::vector<fs::path> files = GoldensUnder(bless == nullptr ? "tests/golden" : bless);
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    const Golden golden = Parse(ReadFile(file));
    ASSERT_FALSE(golden.pass.empty()) << "the first line must be: # RUN: kiln_opt PASS";
    const absl::StatusOr<std::string> result = RunNamedPass(golden.pass, golden.input, golden.settings);
    ASSERT_TRUE(result.ok()) << result.status();
    if (bless != nullptr) {
      std::ofstream(file) << golden.head << *result;
    } else {
      EXPECT_EQ(golden.expected, *result) << "if the new output is right: ./dev bless";
    }
  }
}

TEST(Golden, EveryPassOfTheTableHasOneAndIsListed) {
  std::set<std::string> shown;
  for (const fs::path& file : GoldensUnder("tests/golden")) shown.insert(FullName(Parse(ReadFile(file)).pass));
  const std::string list = PassList();
  for (const std::string& name : PassNames()) {
    EXPECT_TRUE(shown.contains(name)) << "no file of tests/golden begins with: # RUN: kiln_opt " << name;
    const std::string pass = absl::StrReplaceAll(name.substr(name.find('/') + 1), {{"_", " "}});
    EXPECT_NE(list.find(absl::StrCat("\n  ", pass, " ")), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace kiln::compiler
