#include "tests/support/code_object.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "llvm/Object/ELFObjectFile.h"

namespace kiln::testing {
namespace {

template <typename T>
absl::StatusOr<T> ToStatus(llvm::Expected<T> value) {
  if (value) return *std::move(value);
  return absl::InvalidArgumentError(llvm::toString(value.takeError()));
}

absl::Status Lacking(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the code object has no ", what));
}

}  // namespace

absl::StatusOr<KernelDescriptor> ReadKernelDescriptor(const std::string& object, const std::string& kernel) {
  auto file = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(object, "code object"));
  if (!file) return absl::InvalidArgumentError("this is no ELF file of 64 bits");
  if (file->getELFFile().getHeader().e_type != llvm::ELF::ET_DYN) return Lacking("dynamic part: it was not linked");
  bool has_function = false;
  std::optional<uint64_t> descriptor;
  for (const llvm::object::ELFSymbolRef symbol : file->getDynamicSymbolIterators()) {
    const auto name = ToStatus(symbol.getName());
    if (!name.ok()) return name.status();
    has_function |= *name == kernel && symbol.getELFType() == llvm::ELF::STT_FUNC;
    if (*name == kernel + ".kd" && symbol.getELFType() == llvm::ELF::STT_OBJECT && symbol.getSize() == 64)
      descriptor = llvm::cantFail(symbol.getValue());
  }
  if (!has_function) return Lacking("function " + kernel);
  if (!descriptor.has_value()) return Lacking("object " + kernel + ".kd of 64 bytes");
  const auto bytes = ToStatus(file->getELFFile().toMappedAddr(*descriptor));
  if (!bytes.ok()) return bytes.status();
  KernelDescriptor head;
  std::memcpy(&head, *bytes, sizeof(head));
  return head;
}

}  // namespace kiln::testing
