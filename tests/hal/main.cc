// Runs the suite and counts, for each part and driver, the tests that passed and those that were
// skipped as unsupported. Fails if README.md has another table.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/hal/devices.h"

namespace kiln::testing {
namespace {

struct Count {
  int passed = 0, unsupported = 0;

  std::string Text() const {
    return unsupported == 0 ? absl::StrCat(passed) : absl::StrCat(passed, " + ", unsupported);
  }
};

class Counts final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestIterationStart(const ::testing::UnitTest&, int) override { lines_.clear(); }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const std::string name = test.name();
    // "Devices/Transfer" and "LargeFills/cuda".
    const std::string suite(absl::StripPrefix(test.test_suite_name(), "Devices/"));
    const std::string row = name.substr(name.rfind('/') + 1);
    for (const std::string& line : {suite, std::string("all")}) {
      Count& count = lines_[line][row];
      (test.result()->Skipped() ? count.unsupported : count.passed) += 1;
    }
  }

  // As Markdown; "all" is the last line.
  std::string Table() const {
    std::string table = "| |", rule = "|---|";
    for (const DeviceRow& row : DeviceRows()) {
      absl::StrAppend(&table, " ", row.name, " |");
      absl::StrAppend(&rule, "---|");
    }
    absl::StrAppend(&table, "\n", rule, "\n");
    const auto line = [&](const std::string& name) {
      absl::StrAppend(&table, "| ", name, " |");
      for (const DeviceRow& row : DeviceRows()) absl::StrAppend(&table, " ", lines_.at(name).at(row.name).Text(), " |");
      absl::StrAppend(&table, "\n");
    };
    for (const auto& [name, counts] : lines_) {
      if (name != "all") line(name);
    }
    line("all");
    return table;
  }

 private:
  std::map<std::string, std::map<std::string, Count>> lines_;
};

int Main() {
  auto* const counts = new Counts();  // GoogleTest owns it until Release
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  listeners.Append(counts);
  const int code = RUN_ALL_TESTS();
  listeners.Release(counts);
  const std::unique_ptr<Counts> owned(counts);
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  const char* sources = std::getenv("TEST_SRCDIR");
  if (code != 0 || sources == nullptr || all.test_to_run_count() != all.total_test_count()) return code;
  std::ostringstream page;
  page << std::ifstream(absl::StrCat(sources, "/kiln/tests/hal/README.md")).rdbuf();
  std::printf("passed + unsupported:\n\n%s\n", counts->Table().c_str());
  if (absl::StrContains(page.str(), counts->Table())) return 0;
  std::printf("tests/hal/README.md has other numbers: put these there\n");
  return 1;
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return kiln::testing::Main();
}
