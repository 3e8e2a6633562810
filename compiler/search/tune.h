// Faster schedules for a program's kernels, found by running candidates on a device.
//
// A candidate is what a client could send: the kernel's plain loops, with OptOps. So
// nothing is tried that a client could not be refused, and each is compiled by the usual
// entry.
#ifndef KILN_COMPILER_SEARCH_TUNE_H_
#define KILN_COMPILER_SEARCH_TUNE_H_

#include "absl/status/statusor.h"
#include "compiler/options/options.h"
#include "compiler/search/tuning.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Compiles `graph`, searches each of its kernels, the costliest first, and compiles it
// anew with what was found. Kernels of one structure are searched once, those that do
// not take OptOps (more than one STORE, loops of sizes that are not numbers, programs
// written by hand, or a schedule that the client asked for) stay as they are.
// The errors of Compile, and of timer.Wanted().
absl::StatusOr<Tuned> Tune(const v1::Graph& graph, const v1::Target& target, const Options& options,
                           const TuneOptions& tuning, KernelTimer& timer);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SEARCH_TUNE_H_
