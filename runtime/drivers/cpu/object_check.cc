#include "runtime/drivers/cpu/object_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"
#include "runtime/drivers/cpu/symbols.h"

namespace kiln::runtime::cpu {
namespace {

namespace elf = llvm::ELF;
using File = llvm::object::ELFFile<llvm::object::ELF64LE>;
using Section = llvm::object::ELF64LE::Shdr;
using Symbol = llvm::object::ELF64LE::Sym;
using Relocation = llvm::object::ELF64LE::Rela;

// A relocation, and how many bytes it changes.
struct Allowed {
  uint32_t type;
  uint64_t bytes;
};

// Of position-independent code of the small model: distances to constants, to functions of this object and of the host,
// and to the places of their addresses.
#if defined(__x86_64__)
constexpr uint16_t kMachine = elf::EM_X86_64;
constexpr Allowed kRelocations[] = {
    {elf::R_X86_64_PC32, 4},      {elf::R_X86_64_PLT32, 4},         {elf::R_X86_64_GOTPCREL, 4},
    {elf::R_X86_64_GOTPCRELX, 4}, {elf::R_X86_64_REX_GOTPCRELX, 4},
};
#elif defined(__aarch64__)
constexpr uint16_t kMachine = elf::EM_AARCH64;
constexpr Allowed kRelocations[] = {
    {elf::R_AARCH64_CALL26, 4},
    {elf::R_AARCH64_JUMP26, 4},
    {elf::R_AARCH64_ADR_PREL_PG_HI21, 4},
    {elf::R_AARCH64_ADD_ABS_LO12_NC, 4},
    {elf::R_AARCH64_LDST8_ABS_LO12_NC, 4},
    {elf::R_AARCH64_LDST16_ABS_LO12_NC, 4},
    {elf::R_AARCH64_LDST32_ABS_LO12_NC, 4},
    {elf::R_AARCH64_LDST64_ABS_LO12_NC, 4},
    {elf::R_AARCH64_LDST128_ABS_LO12_NC, 4},
    {elf::R_AARCH64_ADR_GOT_PAGE, 4},
    {elf::R_AARCH64_LD64_GOT_LO12_NC, 4},
    {elf::R_AARCH64_PREL32, 4},
};
#else
#error "no relocations are known for this architecture"
#endif

// Nothing that we emit asks for more; a linker would set this much memory aside.
constexpr uint64_t kMaxAlignment = 4096;
// Relocations further off do not fit into 32 bits anyway.
constexpr int64_t kMaxAddend = int64_t{1} << 31;

absl::Status Refused(absl::string_view why) { return MakeError(v1::INTERNAL_FAULT, absl::StrCat("the object ", why)); }
absl::Status Unreadable(llvm::Error error) {
  return MakeError(v1::INTERNAL_FAULT,
                   absl::StrCat("reading the object: ", absl::CHexEscape(llvm::toString(std::move(error)))));
}
// A name may be anything.
std::string Quoted(llvm::StringRef name) {
  return absl::StrCat("\"", absl::CHexEscape(absl::string_view(name.data(), std::min<size_t>(name.size(), 100))), "\"");
}

class Reader {
 public:
  Reader(const File& file, const ObjectLimits& limits) : file_(file), limits_(limits) {}
  absl::Status Check();

 private:
  absl::Status CheckHeader() const;
  absl::Status CheckSection(const Section& section);
  absl::Status CheckContents(const Section& section, llvm::StringRef name);
  absl::Status CheckSymbols(const Section& table);
  absl::Status CheckSymbol(const Symbol& symbol, llvm::StringRef strings) const;
  absl::Status CheckRelocations(const Section& table);
  // One that is loaded; null for any other.
  const Section* Loaded(uint64_t number) const {
    const Section* const section = number < sections_.size() ? &sections_[number] : nullptr;
    return section != nullptr && (section->sh_flags & elf::SHF_ALLOC) != 0 ? section : nullptr;
  }

  const File& file_;
  const ObjectLimits& limits_;
  llvm::ArrayRef<Section> sections_;
  llvm::StringRef names_;
  uint64_t loaded_bytes_ = 0, relocations_ = 0;
  const Section* symbol_table_ = nullptr;
  size_t symbols_ = 0;
};

absl::Status Reader::CheckHeader() const {
  const auto& header = file_.getHeader();
  if (header.e_ident[elf::EI_CLASS] != elf::ELFCLASS64 || header.e_ident[elf::EI_DATA] != elf::ELFDATA2LSB ||
      header.e_type != elf::ET_REL) {
    return Refused("is no relocatable of 64 bits");
  }
  if (header.e_machine != kMachine)
    return Refused(absl::StrCat("is for machine ", static_cast<int>(header.e_machine), ", not for this one"));
  if (header.e_phnum != 0) return Refused("has program headers");
  return absl::OkStatus();
}

absl::Status Reader::Check() {
  KILN_RETURN_IF_ERROR(CheckHeader());
  auto sections = file_.sections();
  if (!sections) return Unreadable(sections.takeError());
  sections_ = *sections;
  if (sections_.size() > limits_.sections)
    return Refused(absl::StrCat("has ", sections_.size(), " sections, and may have ", limits_.sections));
  auto names = file_.getSectionStringTable(sections_);
  if (!names) return Unreadable(names.takeError());
  names_ = *names;
  for (const Section& section : sections_) KILN_RETURN_IF_ERROR(CheckSection(section));
  if (symbol_table_ == nullptr) return Refused("has no symbols");
  KILN_RETURN_IF_ERROR(CheckSymbols(*symbol_table_));
  for (const Section& section : sections_) {
    if (section.sh_type == elf::SHT_RELA) KILN_RETURN_IF_ERROR(CheckRelocations(section));
  }
  return absl::OkStatus();
}

absl::Status Reader::CheckSection(const Section& section) {
  auto found = file_.getSectionName(section, names_);
  if (!found) return Unreadable(found.takeError());
  const llvm::StringRef name = *found;
  const uint64_t flags = section.sh_flags;
  switch (section.sh_type) {
    case elf::SHT_NULL:
      if (&section == sections_.data() && section.sh_size == 0) return absl::OkStatus();
      break;
    case elf::SHT_STRTAB:
      if (flags == 0 && section.sh_addr == 0) return absl::OkStatus();
      break;
    case elf::SHT_SYMTAB:
      if (symbol_table_ != nullptr) return Refused("has two tables of symbols");
      symbol_table_ = &section;
      if (flags == 0 && section.sh_addr == 0) return absl::OkStatus();
      break;
    case elf::SHT_RELA:
      if ((flags & ~uint64_t{elf::SHF_INFO_LINK}) == 0 && section.sh_addr == 0) return absl::OkStatus();
      break;
    case elf::SHT_PROGBITS: return CheckContents(section, name);
    default: break;
  }
  return Refused(absl::StrCat("has the section ", Quoted(name), " of type ", static_cast<uint32_t>(section.sh_type),
                              " with the flags ", flags, ", which is not allowed"));
}

absl::Status Reader::CheckContents(const Section& section, llvm::StringRef name) {
  const auto is = [&](llvm::StringRef kind) {
    return name.starts_with(kind) && (name.size() == kind.size() || name[kind.size()] == '.');
  };
  const uint64_t flags = section.sh_flags;
  const bool loaded = (flags & elf::SHF_ALLOC) != 0;
  const bool code = is(".text") && flags == (elf::SHF_ALLOC | elf::SHF_EXECINSTR);
  const bool constants =
      is(".rodata") && (flags & ~uint64_t{elf::SHF_MERGE | elf::SHF_STRINGS}) == uint64_t{elf::SHF_ALLOC};
  const bool note = (name == ".note.GNU-stack" || name == ".comment") && !loaded &&
                    (flags & ~uint64_t{elf::SHF_MERGE | elf::SHF_STRINGS}) == 0;
  if (!code && !constants && !note) {
    return Refused(absl::StrCat("has the section ", Quoted(name), " with the flags ", flags, ", which is not allowed"));
  }
  const uint64_t alignment = section.sh_addralign;
  if (section.sh_addr != 0 || (loaded && alignment == 0) || (alignment & (alignment - 1)) != 0 ||
      alignment > kMaxAlignment) {
    return Refused(absl::StrCat("asks for the section ", Quoted(name), " at ", static_cast<uint64_t>(section.sh_addr),
                                ", aligned by ", alignment));
  }
  auto contents = file_.getSectionContents(section);
  if (!contents) return Unreadable(contents.takeError());
  // Sections that are the same part of the file would each take memory.
  if (loaded && (loaded_bytes_ += contents->size()) > file_.getBufSize())
    return Refused(absl::StrCat("has sections of more bytes than it has itself: ", file_.getBufSize()));
  return absl::OkStatus();
}

absl::Status Reader::CheckSymbols(const Section& table) {
  auto symbols = file_.symbols(&table);
  if (!symbols) return Unreadable(symbols.takeError());
  symbols_ = symbols->size();
  if (symbols_ > limits_.symbols)
    return Refused(absl::StrCat("has ", symbols_, " symbols, and may have ", limits_.symbols));
  auto strings = file_.getStringTableForSymtab(table, sections_);
  if (!strings) return Unreadable(strings.takeError());
  // The first is none.
  for (size_t i = 1; i < symbols_; ++i) KILN_RETURN_IF_ERROR(CheckSymbol((*symbols)[i], *strings));
  return absl::OkStatus();
}

absl::Status Reader::CheckSymbol(const Symbol& symbol, llvm::StringRef strings) const {
  auto found = symbol.getName(strings);
  if (!found) return Unreadable(found.takeError());
  const llvm::StringRef name = *found;
  const unsigned char type = symbol.getType(), binding = symbol.getBinding();
  const bool file = type == elf::STT_FILE && binding == elf::STB_LOCAL && symbol.st_shndx == elf::SHN_ABS;
  if (file) return absl::OkStatus();
  const bool known = type == elf::STT_NOTYPE || type == elf::STT_FUNC || type == elf::STT_OBJECT ||
                     (type == elf::STT_SECTION && binding == elf::STB_LOCAL);
  if (!known || (binding != elf::STB_LOCAL && binding != elf::STB_GLOBAL))
    return Refused(absl::StrCat("has the symbol ", Quoted(name), " of type ", type, " and binding ", binding,
                                ", which is not allowed"));
  if (symbol.st_shndx == elf::SHN_UNDEF) {
    const absl::string_view wanted(name.data(), name.size());
    if (binding == elf::STB_GLOBAL &&
        absl::c_any_of(HostSymbols(), [&](const HostSymbol& s) { return wanted == s.name; }))
      return absl::OkStatus();
    return Refused(absl::StrCat("needs ", Quoted(name), ", which is not allowed"));
  }
  const Section* const section = Loaded(symbol.st_shndx);
  if (section == nullptr || symbol.st_value > section->sh_size || symbol.st_size > section->sh_size - symbol.st_value) {
    return Refused(absl::StrCat("has the symbol ", Quoted(name), " outside of a section that is loaded"));
  }
  return absl::OkStatus();
}

absl::Status Reader::CheckRelocations(const Section& table) {
  const Section* const section = Loaded(table.sh_info);
  if (section == nullptr || table.sh_link != static_cast<uint64_t>(symbol_table_ - sections_.data()))
    return Refused("has relocations of a section that is not loaded, or by other symbols");
  auto relocations = file_.relas(table);
  if (!relocations) return Unreadable(relocations.takeError());
  relocations_ += relocations->size();
  if (relocations_ > limits_.relocations)
    return Refused(absl::StrCat("has more than ", limits_.relocations, " relocations"));
  for (const Relocation& relocation : *relocations) {
    const uint32_t type = relocation.getType(/*isMips64EL=*/false);
    const auto* const allowed = absl::c_find_if(kRelocations, [&](const Allowed& row) { return row.type == type; });
    const llvm::StringRef name = file_.getRelocationTypeName(type);
    if (allowed == std::end(kRelocations))
      return Refused(absl::StrCat("has a relocation ", name.str(), " (", type, "), which is not allowed"));
    const uint64_t at = relocation.r_offset;
    const int64_t addend = relocation.r_addend;
    if (at > section->sh_size || section->sh_size - at < allowed->bytes || addend > kMaxAddend || addend < -kMaxAddend)
      return Refused(
          absl::StrCat("has a relocation ", name.str(), " at ", at, " with ", addend, " outside of its section"));
    const uint32_t symbol = relocation.getSymbol(/*isMips64EL=*/false);
    if (symbol == 0 || symbol >= symbols_)
      return Refused(absl::StrCat("has a relocation ", name.str(), " by symbol ", symbol, ", which there is not"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckObject(absl::string_view object, const ObjectLimits& limits) {
  if (object.size() > limits.bytes)
    return Refused(absl::StrCat("has ", object.size(), " bytes, and may have ", limits.bytes));
  // Also that of another format.
  if (!absl::StartsWith(object,
                        "\x7f"
                        "ELF"))
    return Refused("is no ELF");
  auto file = File::create(llvm::StringRef(object.data(), object.size()));
  if (!file) return Unreadable(file.takeError());
  return Reader(*file, limits).Check();
}

}  // namespace kiln::runtime::cpu
