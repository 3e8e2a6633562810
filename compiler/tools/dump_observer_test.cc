#include "compiler/tools/dump_observer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_join.h"

namespace kiln::compiler {
namespace {

namespace fs = std::filesystem;

void Compile(CompileObserver& observer) {
  const auto record = [&](absl::string_view pass, absl::string_view kernel, const char* text) {
    observer.OnPass({pass, kernel, 12, 3, [text] { return std::string(text); }});
  };
  record("callify", "", "callified\n");
  record("rangeify", "", "calls\n");
  record("bounds", "k0_map_4", "loops\n");
  record("linearize", "k0_map_4", "list\n");
  record("llvm", "", "define\n");
}

TEST(DumpObserver, WritesOneFileAPassInOrderAndTheObject) {
  const fs::path folder = fs::path(::testing::TempDir()) / "dump";
  DumpObserver observer(folder.string());
  Compile(observer);
  observer.WriteObject(
      "\x7f"
      "ELF");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(absl::StrJoin(names, " "),
            "000.callify.uop 001.rangeify.uop 002.k0_map_4.bounds.uop 003.k0_map_4.linearize.uop 004.llvm.ll "
            "005.object.o");
  std::ostringstream text;
  text << std::ifstream(folder / "005.object.o").rdbuf();
  EXPECT_EQ(text.str(),
            "\x7f"
            "ELF");
}

}  // namespace
}  // namespace kiln::compiler
