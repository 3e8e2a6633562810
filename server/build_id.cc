#include "server/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/blake3.h"

namespace kiln::server {
namespace {

// The id among the notes of a segment; empty if there is none.
absl::string_view IdAmong(const char* notes, size_t bytes) {
  const auto padded = [](size_t size) { return (size + 3) & ~size_t{3}; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof(note));
    const size_t name = sizeof(note), text = name + padded(note.n_namesz), end = text + padded(note.n_descsz);
    if (end > bytes) return "";
    if (note.n_type == NT_GNU_BUILD_ID && absl::string_view(notes + name, note.n_namesz) == absl::string_view("GNU", 4))
      return absl::string_view(notes + text, note.n_descsz);
    notes += end;
    bytes -= end;
  }
  return "";
}

void AddFile(const char* path, Blake3& hasher) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(1 << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    hasher.Update(piece.data(), static_cast<size_t>(file.gcount()));
  }
}

int AddObject(dl_phdr_info* object, size_t, void* to) {
  Blake3& hasher = *static_cast<Blake3*>(to);
  const absl::string_view name = object->dlpi_name;
  // The kernel's own: no part of the program.
  if (absl::StrContains(name, "linux-vdso") || absl::StrContains(name, "linux-gate")) return 0;
  absl::string_view id;
  for (int i = 0; i < object->dlpi_phnum && id.empty(); ++i) {
    const ElfW(Phdr) & segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    id = IdAmong(reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  if (!id.empty()) {
    hasher.Update(id);
  } else {
    AddFile(name.empty() ? "/proc/self/exe" : object->dlpi_name, hasher);
  }
  return 0;
}

}  // namespace

std::string BuildId() {
  Blake3 hasher;
  dl_iterate_phdr(AddObject, &hasher);
  const Digest digest = hasher.Finish();
  return absl::BytesToHexString(digest.view().substr(0, 8));
}

}  // namespace kiln::server
