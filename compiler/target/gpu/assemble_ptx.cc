#include "compiler/target/gpu/assemble_ptx.h"

#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

namespace kiln::compiler {
namespace {

// A folder of its own under that for temporary files, gone with all that is in it when this ends.
class TemporaryFolder {
 public:
  TemporaryFolder() { failure_ = llvm::sys::fs::createUniqueDirectory("kiln", path_); }
  ~TemporaryFolder() {
    if (!failure_) llvm::sys::fs::remove_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::error_code failure() const { return failure_; }
  std::string File(absl::string_view name) const { return absl::StrCat(path_.str().str(), "/", name); }

 private:
  std::error_code failure_;
  llvm::SmallString<128> path_;
};

std::error_code Write(const std::string& bytes, const std::string& path) {
  std::error_code failure;
  llvm::raw_fd_ostream file(path, failure);
  if (failure) return failure;
  file << bytes;
  file.close();
  failure = file.error();
  file.clear_error();  // else its destructor ends the process
  return failure;
}

// Empty if it cannot be read.
std::string Read(const std::string& path) {
  const auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return file ? (*file)->getBuffer().str() : "";
}

absl::Status Failure(const std::string& ptxas, absl::string_view said) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat(ptxas, " did not assemble the program's PTX: ", said));
}

// NVIDIA's names of architectures that are their own alone end so: sm_90a.
bool IsForOneAlone(absl::string_view architecture) { return absl::EndsWith(architecture, "a"); }

}  // namespace

absl::Status AssemblePtx(const std::string& ptxas, v1::Executable& executable) {
  const v1::Target& target = executable.target();
  if (ptxas.empty() || target.kind() != v1::Target::NVPTX || !IsForOneAlone(target.arch()) ||
      executable.object().empty())
    return absl::OkStatus();
  const TemporaryFolder folder;
  if (folder.failure()) return Failure(ptxas, folder.failure().message());
  const std::string from = folder.File("ptx"), to = folder.File("cubin"), log = folder.File("log");
  if (const std::error_code failure = Write(executable.object(), from)) return Failure(ptxas, failure.message());
  const std::string architecture = absl::StrCat("-arch=", target.arch());
  const llvm::StringRef arguments[] = {ptxas, architecture, from, "-o", to};
  const std::optional<llvm::StringRef> nothing = llvm::StringRef(), into_log = llvm::StringRef(log);
  std::string why;
  const int code = llvm::sys::ExecuteAndWait(ptxas, arguments, /*Env=*/std::nullopt, {nothing, into_log, into_log},
                                             /*SecondsToWait=*/0, /*MemoryLimit=*/0, &why);
  if (code != 0) return Failure(ptxas, code < 0 ? why : Read(log));
  std::string cubin = Read(to);
  if (cubin.empty()) return Failure(ptxas, "it wrote nothing");
  executable.set_object(std::move(cubin));
  return absl::OkStatus();
}

}  // namespace kiln::compiler
