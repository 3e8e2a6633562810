#include "compiler/tools/dump_observer.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace kiln::compiler {

DumpObserver::DumpObserver(std::string directory) : directory_(std::move(directory)) {
  std::error_code ignored;
  std::filesystem::create_directories(directory_, ignored);
}

void DumpObserver::OnPass(const PassRecord& record) {
  const std::string pass = absl::StrReplaceAll(record.name, {{" ", "_"}});
  const char* extension = pass == "llvm"                              ? "ll"
                          : pass == "assembly"                        ? "s"
                          : pass == "object" || pass == "memory_plan" ? "txt"
                                                                      : "uop";
  const std::string kernel = record.kernel.empty() ? "" : absl::StrCat(record.kernel, ".");
  std::ofstream file(
      absl::StrCat(directory_, "/", absl::StrFormat("%03d", next_++), ".", kernel, pass, ".", extension));
  file << record.text();
}

}  // namespace kiln::compiler
