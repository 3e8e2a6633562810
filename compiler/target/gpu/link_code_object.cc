#include "compiler/target/gpu/link_code_object.h"

#include <system_error>

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace kiln::compiler {
namespace {

// A path in the folder for temporary files, and no file of that name when this ends.
class TemporaryFile {
 public:
  explicit TemporaryFile(const char* suffix) { failure_ = llvm::sys::fs::createTemporaryFile("kiln", suffix, path_); }
  ~TemporaryFile() {
    if (!failure_) llvm::sys::fs::remove(path_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::error_code failure() const { return failure_; }
  const char* path() { return path_.c_str(); }

 private:
  std::error_code failure_;
  llvm::SmallString<128> path_;
};

std::error_code Write(const std::string& bytes, const char* path) {
  std::error_code failure;
  llvm::raw_fd_ostream file(path, failure);
  if (failure) return failure;
  file << bytes;
  file.close();
  failure = file.error();
  file.clear_error();  // else its destructor ends the process
  return failure;
}

absl::Status NoFile(const std::error_code& why) {
  return MakeError(v1::INTERNAL_FAULT,
                   absl::StrCat("linking a code object takes a temporary file; there is none: ", why.message()));
}

}  // namespace

absl::StatusOr<std::string> LinkCodeObject(const std::string& object) {
  // The linker's state is its process's.
  ABSL_CONST_INIT static absl::Mutex mutex(absl::kConstInit);
  absl::MutexLock lock(&mutex);
  TemporaryFile from("o"), to("hsaco");
  for (const TemporaryFile* file : {&from, &to}) {
    if (file->failure()) return NoFile(file->failure());
  }
  if (const std::error_code failure = Write(object, from.path())) return NoFile(failure);
  const char* const arguments[] = {"ld.lld", "-shared", "--threads=1", from.path(), "-o", to.path()};
  std::string said;
  llvm::raw_string_ostream words(said);
  const lld::Result result = lld::lldMain(arguments, words, words, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) return MakeError(v1::INTERNAL_FAULT, absl::StrCat("linking a code object: ", said));
  const auto linked = llvm::MemoryBuffer::getFile(to.path(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!linked) return NoFile(linked.getError());
  return (*linked)->getBuffer().str();
}

}  // namespace kiln::compiler
