#include "compiler/target/gpu/temporary_folder.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace kiln::compiler {
namespace {

absl::Status NoFile(absl::string_view name, const std::error_code& why) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat("compiling for GPUs takes temporary files; there is no \"", name,
                                                    "\": ", why.message()));
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  llvm::SmallString<128> path;
  failure_ = llvm::sys::fs::createUniqueDirectory("kiln", path);
  path_ = path.str().str();
}

TemporaryFolder::~TemporaryFolder() {
  if (!failure_) llvm::sys::fs::remove_directories(path_);
}

std::string TemporaryFolder::Path(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

absl::Status TemporaryFolder::Write(absl::string_view name, const std::string& bytes) const {
  if (failure_) return NoFile(name, failure_);
  std::error_code failure;
  llvm::raw_fd_ostream file(Path(name), failure);
  if (failure) return NoFile(name, failure);
  file << bytes;
  file.close();
  failure = file.error();
  file.clear_error();  // else its destructor ends the process
  return failure ? NoFile(name, failure) : absl::OkStatus();
}

absl::StatusOr<std::string> TemporaryFolder::Read(absl::string_view name) const {
  const auto file = llvm::MemoryBuffer::getFile(Path(name), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file) return NoFile(name, file.getError());
  return (*file)->getBuffer().str();
}

}  // namespace kiln::compiler
