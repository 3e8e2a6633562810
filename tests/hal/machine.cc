#include "compiler/compile.h"
#include "tests/hal/devices.h"

namespace kiln::testing {

absl::StatusOr<v1::Executable> Machine::Compile(const v1::Graph& graph, const v1::Target& target) {
  return compiler::Compile(graph, target, compiler::Options());
}

void Machine::Close() {
  runtime::hal::DrainAll(devices);
  devices.clear();
}

std::vector<const DeviceRow*> RowPointers() {
  std::vector<const DeviceRow*> pointers;
  for (const DeviceRow& row : DeviceRows()) pointers.push_back(&row);
  return pointers;
}

}  // namespace kiln::testing
