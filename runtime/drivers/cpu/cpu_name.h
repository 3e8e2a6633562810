// LLVM's name of a CPU, which says how its instructions are best chosen and ordered.
#ifndef KILN_RUNTIME_DRIVERS_CPU_CPU_NAME_H_
#define KILN_RUNTIME_DRIVERS_CPU_CPU_NAME_H_

#include <set>
#include <string>

namespace kiln::runtime::cpu {

// `guess`, LLVM's own, which goes by numbers of models: of one that it does not know it takes a relative, as it does of
// a virtual machine that hides its number. Where the CPU has `features` that the guess does not know of and that mark
// a newer core, the name of the newest of those.
std::string CpuName(const std::string& guess, const std::set<std::string>& features);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_CPU_NAME_H_
