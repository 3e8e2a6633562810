#include "runtime/drivers/cpu/object_check.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/error.h"
#include "runtime/testing/compile_ir.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime::cpu {
namespace {

// An object whose parts may be changed.
class Parts {
 public:
  explicit Parts(std::string bytes) : bytes_(std::move(bytes)) {}
  const std::string& bytes() const { return bytes_; }
  Elf64_Ehdr& header() { return At<Elf64_Ehdr>(0); }
  Elf64_Shdr& section(int number) { return At<Elf64_Shdr>(header().e_shoff + sizeof(Elf64_Shdr) * number); }
  // The first of this name.
  Elf64_Shdr& section(const std::string& name) {
    const uint64_t names = section(header().e_shstrndx).sh_offset;
    for (int i = 1; i < header().e_shnum; ++i) {
      if (name == &bytes_[names + section(i).sh_name]) return section(i);
    }
    ADD_FAILURE() << "no section " << name;
    return section(0);
  }
  Elf64_Shdr& of_type(uint32_t type) {
    for (int i = 1; i < header().e_shnum; ++i) {
      if (section(i).sh_type == type) return section(i);
    }
    ADD_FAILURE() << "no section of type " << type;
    return section(0);
  }
  Elf64_Rela& relocation() { return At<Elf64_Rela>(of_type(SHT_RELA).sh_offset); }
  // The first that is global and there, or is not.
  Elf64_Sym& symbol(bool defined) {
    const Elf64_Shdr& table = of_type(SHT_SYMTAB);
    for (uint64_t at = table.sh_offset; at < table.sh_offset + table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym& symbol = At<Elf64_Sym>(at);
      if (ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL && (symbol.st_shndx != SHN_UNDEF) == defined) return symbol;
    }
    ADD_FAILURE() << "no such symbol";
    return At<Elf64_Sym>(table.sh_offset);
  }

 private:
  template <typename T>
  T& At(uint64_t offset) {
    return *reinterpret_cast<T*>(&bytes_[offset]);
  }
  std::string bytes_;
};

std::string Said(const std::string& object, const ObjectLimits& limits = {}) {
  const absl::Status status = CheckObject(object, limits);
  if (!status.ok()) EXPECT_EQ(DetailOf(status)->code(), v1::INTERNAL_FAULT);
  return std::string(status.message());
}

void TypeOf(Elf64_Rela& relocation, uint32_t type) {
  relocation.r_info = ELF64_R_INFO(ELF64_R_SYM(relocation.r_info), type);
}
void TypeOf(Elf64_Sym& symbol, unsigned char type) {
  symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_GLOBAL, type));
}

TEST(CheckObject, WhatIsCompiledIsAllowed) {
  EXPECT_EQ(Said(testing::KernelsObject()), "");
  // Constants, a table of jumps, a call by address.
  EXPECT_EQ(Said(testing::CompileIr(R"(
    @table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
    declare ptr @memcpy(ptr, ptr, i64)
    define ptr @address() { ret ptr @memcpy }
    define double @jumps(i64 %i) {
      switch i64 %i, label %e [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %f ]
    a: %p = getelementptr double, ptr @table, i64 %i
       %v = load double, ptr %p
       ret double %v
    b: ret double 7.0
    c: ret double 9.5
    d: ret double 11.25
    f: ret double 12.125
    e: ret double 0.0
    })")),
            "");
}

TEST(CheckObject, WhatIsNotAllowedIsNamed) {
  const struct {
    const char* part;
    const char* said;
    std::function<void(Parts&)> change;
  } rows[] = {
      {"another machine", "machine 40", [](Parts& o) { o.header().e_machine = EM_ARM; }},
      {"a program", "no relocatable", [](Parts& o) { o.header().e_type = ET_EXEC; }},
      {"32 bits", "no relocatable", [](Parts& o) { o.header().e_ident[EI_CLASS] = ELFCLASS32; }},
      {"big-endian", "no relocatable", [](Parts& o) { o.header().e_ident[EI_DATA] = ELFDATA2MSB; }},
      {"segments", "program headers", [](Parts& o) { o.header().e_phnum = 1; }},
      {"sections beyond the end", "reading the object", [](Parts& o) { o.header().e_shoff = 1 << 30; }},
      {"a name beyond the end", "reading the object", [](Parts& o) { o.section(".text").sh_name = 1 << 30; }},
      {"memory without bytes", "type 8", [](Parts& o) { o.section(".text").sh_type = SHT_NOBITS; }},
      {"a group", "type 17", [](Parts& o) { o.section(".note.GNU-stack").sh_type = SHT_GROUP; }},
      {"functions to call first", "type 14", [](Parts& o) { o.section(".text").sh_type = SHT_INIT_ARRAY; }},
      {"memory to write", "with the flags 7", [](Parts& o) { o.section(".text").sh_flags |= SHF_WRITE; }},
      {"memory of threads", "with the flags", [](Parts& o) { o.section(".text").sh_flags |= SHF_TLS; }},
      {"what is compressed", "with the flags", [](Parts& o) { o.section(".text").sh_flags |= SHF_COMPRESSED; }},
      {"code of another name", "\".rela.text\"",
       [](Parts& o) { o.section(".text").sh_name = o.section(".rela.text").sh_name; }},
      {"bytes beyond the end", "reading the object", [](Parts& o) { o.section(".text").sh_size = 1 << 30; }},
      {"bytes at the end of the addresses", "reading the object",
       [](Parts& o) { o.section(".text").sh_offset = ~0ull; }},
      {"an address", "at 4096", [](Parts& o) { o.section(".text").sh_addr = 4096; }},
      {"a large alignment", "aligned by 1099511627776", [](Parts& o) { o.section(".text").sh_addralign = 1ull << 40; }},
      {"an alignment that is none", "aligned by 48", [](Parts& o) { o.section(".text").sh_addralign = 48; }},
      {"symbols by halves", "reading the object", [](Parts& o) { o.of_type(SHT_SYMTAB).sh_entsize = 12; }},
      {"symbols of other names", "reading the object", [](Parts& o) { o.of_type(SHT_SYMTAB).sh_link = 999; }},
      {"two tables of symbols", "two tables", [](Parts& o) { o.section(".note.GNU-stack").sh_type = SHT_SYMTAB; }},
      {"no symbols", "no symbols", [](Parts& o) { o.of_type(SHT_SYMTAB).sh_type = SHT_STRTAB; }},
      {"a symbol's name", "reading the object", [](Parts& o) { o.symbol(true).st_name = 1 << 30; }},
      {"a symbol's section", "outside of a section", [](Parts& o) { o.symbol(true).st_shndx = 500; }},
      {"a symbol's address", "outside of a section", [](Parts& o) { o.symbol(true).st_shndx = SHN_ABS; }},
      {"a symbol's place", "outside of a section", [](Parts& o) { o.symbol(true).st_value = 1 << 30; }},
      {"a symbol's size", "outside of a section", [](Parts& o) { o.symbol(true).st_size = ~0ull; }},
      {"a symbol that is called to know where it is", "of type 10",
       [](Parts& o) { TypeOf(o.symbol(true), STT_GNU_IFUNC); }},
      {"a symbol of threads", "of type 6", [](Parts& o) { TypeOf(o.symbol(true), STT_TLS); }},
      {"what is not there", "needs \"add\"", [](Parts& o) { o.symbol(false).st_name = o.symbol(true).st_name; }},
      {"relocations of nothing", "not loaded", [](Parts& o) { o.of_type(SHT_RELA).sh_info = 0; }},
      {"relocations by other symbols", "by other symbols", [](Parts& o) { o.of_type(SHT_RELA).sh_link = 1; }},
      {"a relocation's place", "outside of its section", [](Parts& o) { o.relocation().r_offset = 1 << 30; }},
      {"a relocation's last byte", "outside of its section",
       [](Parts& o) { o.relocation().r_offset = o.section(".text").sh_size - 3; }},
      {"a relocation's symbol", "by symbol 99999", [](Parts& o) { o.relocation().r_info = ELF64_R_INFO(99999, 4); }},
      {"a relocation's addend", "outside of its section", [](Parts& o) { o.relocation().r_addend = INT64_MIN; }},
      {"a kind of relocation that there is not", "(200), which is not allowed",
       [](Parts& o) { TypeOf(o.relocation(), 200); }},
#if defined(__x86_64__)
      {"an address in 32 bits", "R_X86_64_32S (11)", [](Parts& o) { TypeOf(o.relocation(), R_X86_64_32S); }},
      {"an address", "R_X86_64_64 (1)", [](Parts& o) { TypeOf(o.relocation(), R_X86_64_64); }},
#endif
  };
  for (const auto& row : rows) {
    Parts parts(testing::KernelsObject());
    row.change(parts);
    const std::string said = Said(parts.bytes());
    EXPECT_TRUE(absl::StrContains(said, row.said)) << row.part << ": " << said;
  }
}

TEST(CheckObject, EachLimitHolds) {
  const std::string& object = testing::KernelsObject();
  EXPECT_TRUE(absl::StrContains(Said(object, {.bytes = object.size() - 1}), "bytes"));
  EXPECT_TRUE(absl::StrContains(Said(object, {.sections = 3}), "sections"));
  EXPECT_TRUE(absl::StrContains(Said(object, {.symbols = 2}), "symbols"));
  EXPECT_TRUE(absl::StrContains(Said(object, {.relocations = 0}), "relocations"));
}

TEST(CheckObject, SectionsThatAreOnePartOfTheFileTakeNoMemoryEach) {
  Parts parts(testing::KernelsObject());
  const Elf64_Shdr text = parts.section(".text");
  Elf64_Shdr& note = parts.section(".note.GNU-stack");
  note = text;
  Elf64_Shdr whole = text;
  whole.sh_offset = 0;
  whole.sh_size = parts.bytes().size();
  note = whole;
  EXPECT_TRUE(absl::StrContains(Said(parts.bytes()), "more bytes than it has itself"));
}

TEST(CheckObject, OtherFormatsAreNone) {
  for (const std::string& bytes :
       {std::string("\xcf\xfa\xed\xfe", 4), std::string("\0asm", 4), std::string("!<arch>\n")}) {
    EXPECT_EQ(Said(bytes + std::string(4096, '\0')), "the object is no ELF");
  }
}

}  // namespace
}  // namespace kiln::runtime::cpu
