#include "tests/support/code_object.h"

#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "llvm/Object/ELFObjectFile.h"

namespace kiln::testing {
namespace {

constexpr uint16_t kWavesOf32 = 1 << 10;

template <typename T>
absl::StatusOr<T> ToStatus(llvm::Expected<T> value) {
  if (value) return *std::move(value);
  return absl::InvalidArgumentError(llvm::toString(value.takeError()));
}

KernelDescriptor Decoded(const uint8_t* bytes) {
  KernelDescriptor read;
  std::memcpy(&read.group_segment, bytes, 4);
  std::memcpy(&read.private_segment, bytes + 4, 4);
  std::memcpy(&read.arguments, bytes + 8, 4);
  uint16_t properties = 0;
  std::memcpy(&properties, bytes + 56, 2);
  read.lanes = (properties & kWavesOf32) != 0 ? 32 : 64;
  return read;
}

absl::Status Lacking(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the code object has no ", what));
}

}  // namespace

absl::StatusOr<std::map<std::string, KernelDescriptor>> ReadKernelDescriptors(const std::string& object) {
  auto file = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(object, "code object"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return absl::InvalidArgumentError("this is no ELF file of 64 bits");
  }
  if (file->getELFFile().getHeader().e_type != llvm::ELF::ET_DYN) return Lacking("dynamic part: it was not linked");
  std::set<std::string> functions;
  std::map<std::string, KernelDescriptor> descriptors;
  for (const llvm::object::ELFSymbolRef symbol : file->getDynamicSymbolIterators()) {
    const auto name = ToStatus(symbol.getName());
    if (!name.ok()) return name.status();
    if (symbol.getELFType() == llvm::ELF::STT_FUNC) functions.insert(name->str());
    llvm::StringRef kernel = *name;
    if (!kernel.consume_back(".kd") || symbol.getELFType() != llvm::ELF::STT_OBJECT || symbol.getSize() != 64) continue;
    const auto bytes = ToStatus(file->getELFFile().toMappedAddr(llvm::cantFail(symbol.getValue())));
    if (!bytes.ok()) return bytes.status();
    descriptors[kernel.str()] = Decoded(*bytes);
  }
  for (const auto& [name, descriptor] : descriptors) {
    if (!functions.contains(name)) return Lacking("function " + name);
  }
  return descriptors;
}

absl::StatusOr<KernelDescriptor> ReadKernelDescriptor(const std::string& object, const std::string& kernel) {
  const auto all = ReadKernelDescriptors(object);
  if (!all.ok()) return all.status();
  const auto found = all->find(kernel);
  if (found == all->end()) return Lacking("object " + kernel + ".kd of 64 bytes");
  return found->second;
}

}  // namespace kiln::testing
