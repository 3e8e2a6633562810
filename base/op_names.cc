#include "base/op_names.h"

#include <array>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace kiln {
namespace {

using NameTable = std::array<absl::string_view, v1::Op_ARRAYSIZE>;

// The descriptors own the names and live as long as the process.
const NameTable& Names() {
  static const NameTable* const names = [] {
    auto* table = new NameTable();
    const auto* descriptor = v1::Op_descriptor();
    for (int i = 0; i < descriptor->value_count(); ++i) {
      const int number = descriptor->value(i)->number();
      if (number != v1::OP_UNSPECIFIED) (*table)[number] = descriptor->value(i)->name();
    }
    return table;
  }();
  return *names;
}

}  // namespace

absl::string_view OpName(v1::Op op) {
  const size_t number = static_cast<uint32_t>(op);
  return number < Names().size() ? Names()[number] : absl::string_view();
}

std::optional<v1::Op> ParseOp(absl::string_view name) {
  using Map = absl::flat_hash_map<absl::string_view, v1::Op>;
  static const Map* const map = [] {
    auto* result = new Map();
    for (size_t i = 0; i < Names().size(); ++i) {
      if (!Names()[i].empty()) result->emplace(Names()[i], static_cast<v1::Op>(i));
    }
    return result;
  }();
  const auto it = map->find(name);
  if (it == map->end()) return std::nullopt;
  return it->second;
}

}  // namespace kiln
