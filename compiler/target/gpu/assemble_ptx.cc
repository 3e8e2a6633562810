#include "compiler/target/gpu/assemble_ptx.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "compiler/target/gpu/temporary_folder.h"
#include "llvm/Support/Program.h"

namespace kiln::compiler {
namespace {

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
  KILN_RETURN_IF_ERROR(folder.Write("ptx", executable.object()));
  const std::string from = folder.Path("ptx"), to = folder.Path("cubin"), log = folder.Path("log");
  const std::string architecture = absl::StrCat("-arch=", target.arch());
  const llvm::StringRef arguments[] = {ptxas, architecture, from, "-o", to};
  const std::optional<llvm::StringRef> nothing = llvm::StringRef(), into_log = llvm::StringRef(log);
  std::string why;
  const int code = llvm::sys::ExecuteAndWait(ptxas, arguments, /*Env=*/std::nullopt, {nothing, into_log, into_log},
                                             /*SecondsToWait=*/0, /*MemoryLimit=*/0, &why);
  if (code != 0) return Failure(ptxas, code < 0 ? why : folder.Read("log").value_or(""));
  absl::StatusOr<std::string> cubin = folder.Read("cubin");
  if (!cubin.ok() || cubin->empty()) return Failure(ptxas, "it wrote nothing");
  executable.set_object(*std::move(cubin));
  return absl::OkStatus();
}

}  // namespace kiln::compiler
