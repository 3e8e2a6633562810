// What a graph becomes on each of the CPUs that tests name: for tests that say how many
// kernels a program has, or anything else that a schedule decides.
#ifndef KILN_TESTS_SUPPORT_CPU_PROGRAMS_H_
#define KILN_TESTS_SUPPORT_CPU_PROGRAMS_H_

#include <map>
#include <string>

#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

// By the CPU's name, each of CpuModels() (cpu_targets.h). What does not compile is a failure of
// the test, and empty.
std::map<std::string, v1::Executable> CompiledForEachCpu(const v1::Graph& graph, const compiler::Options& options = {});

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_CPU_PROGRAMS_H_
