#include "compiler/target/gpu/link_code_object.h"

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "compiler/target/gpu/temporary_folder.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace kiln::compiler {

absl::StatusOr<std::string> LinkCodeObject(const std::string& object) {
  // The linker's state is its process's.
  ABSL_CONST_INIT static absl::Mutex mutex(absl::kConstInit);
  absl::MutexLock lock(&mutex);
  const TemporaryFolder folder;
  KILN_RETURN_IF_ERROR(folder.Write("o", object));
  const std::string from = folder.Path("o"), to = folder.Path("hsaco");
  const char* const arguments[] = {"ld.lld", "-shared", "--threads=1", from.c_str(), "-o", to.c_str()};
  std::string said;
  llvm::raw_string_ostream words(said);
  const lld::Result result = lld::lldMain(arguments, words, words, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) return MakeError(v1::INTERNAL_FAULT, absl::StrCat("linking a code object: ", said));
  return folder.Read("hsaco");
}

}  // namespace kiln::compiler
