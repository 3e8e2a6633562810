#include "compiler/tools/dump_observer.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compiler/pass/passes.h"

namespace kiln::compiler {

DumpObserver::DumpObserver(std::string directory) : directory_(std::move(directory)) {
  std::error_code ignored;
  std::filesystem::create_directories(directory_, ignored);
}

void DumpObserver::OnPass(const PassRecord& record) {
  if (record.name == "object") return;  // its bytes come by themselves
  const std::string pass = absl::StrReplaceAll(record.name, {{" ", "_"}});
  const Pass* row = FindPass(record.name);
  const absl::string_view extension = row == nullptr ? "uop" : row->extension;
  const std::string kernel = record.kernel.empty() ? "" : absl::StrCat(record.kernel, ".");
  std::ofstream file(
      absl::StrCat(directory_, "/", absl::StrFormat("%03d", next_++), ".", kernel, pass, ".", extension));
  file << record.text();
}

void DumpObserver::WriteObject(absl::string_view bytes) {
  std::ofstream file(absl::StrCat(directory_, "/", absl::StrFormat("%03d", next_++), ".object.o"), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace kiln::compiler
