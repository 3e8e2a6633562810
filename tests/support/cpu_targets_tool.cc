// Prints the CPUs that tests name, one a line: its name, a tab, and what to set KILN_CPU_TARGET
// to so that all tests see that CPU's vectors, caches and cores in place of this machine's.
#include <cstdio>

#include "google/protobuf/text_format.h"
#include "tests/support/cpu_targets.h"

int main() {
  for (const kiln::testing::CpuModel& cpu : kiln::testing::CpuModels()) {
    google::protobuf::TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    std::string text;
    printer.PrintToString(kiln::testing::TunedFor(cpu, kiln::v1::Target()), &text);
    std::printf("%s\t%s\n", cpu.arch, text.c_str());
  }
  return 0;
}
