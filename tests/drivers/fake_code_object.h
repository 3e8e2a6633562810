// The least that passes for a code object of AMD's.
#ifndef KILN_TESTS_DRIVERS_FAKE_CODE_OBJECT_H_
#define KILN_TESTS_DRIVERS_FAKE_CODE_OBJECT_H_

#include <elf.h>

#include <cstring>
#include <string>

namespace kiln::testing {

// A shared ELF with the descriptor's name of kernel `name`, and nothing else.
inline std::string CodeObjectWith(const std::string& name) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_type = ET_DYN;
  header.e_machine = 224;  // AMD's GPUs
  const std::string names = std::string(1, '\0') + name + ".kd" + std::string(1, '\0');
  header.e_shoff = sizeof(header) + names.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + names;
}

}  // namespace kiln::testing

#endif  // KILN_TESTS_DRIVERS_FAKE_CODE_OBJECT_H_
