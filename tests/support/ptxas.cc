#include "tests/support/ptxas.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace kiln::testing {

Assembled Assemble(const std::string& ptxas, const std::string& arch, const std::string& ptx) {
  const std::string path = std::filesystem::temp_directory_path() / absl::StrCat("kiln.", getpid(), ".ptx");
  std::ofstream(path) << ptx;
  FILE* pipe = popen(absl::StrCat(ptxas, " -v -arch=", arch, " -o /dev/null ", path, " 2>&1").c_str(), "r");
  Assembled assembled;
  char line[512];
  while (fgets(line, sizeof(line), pipe) != nullptr) assembled.said += line;
  assembled.taken = pclose(pipe) == 0;
  std::remove(path.c_str());
  return assembled;
}

}  // namespace kiln::testing
