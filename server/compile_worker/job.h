// A compilation, as it goes to a worker and comes back.
#ifndef KILN_SERVER_COMPILE_WORKER_JOB_H_
#define KILN_SERVER_COMPILE_WORKER_JOB_H_

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "compiler/search/tuning.h"
#include "kiln/v1/compile_job.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"
#include "server/engine/programs/compile_fn.h"

namespace kiln::server {

// `observer` may be null.
v1::CompileJob ToJob(const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
                     const compiler::CompileObserver* observer);

// The options of a job; INVALID_ARGUMENT if its limits are none.
absl::StatusOr<compiler::Options> OptionsOf(const v1::CompileJob& job);

// A gradient.
v1::CompileJob ToJob(const v1::GradientRequest& request, const compiler::Limits& limits);

// A step of a search.
v1::CompileJob ToJob(const v1::Graph& kernel, const v1::Target& target, const compiler::Limits& limits,
                     const v1::ChooseJob& choose);

// Does it here, by `compiler`.
v1::CompileJobResult RunJob(const v1::CompileJob& job, const CompilerInProcess& compiler);

// What a worker has answered: the program, or its failure. `observer`, if there is one, is told of the passes; and
// `stages`, if it is there, when they were: from `begin` until now, whatever the worker says. COMPILER_FAULT for an
// answer that is none.
absl::StatusOr<CompiledProgram> FromResult(v1::CompileJobResult result, compiler::CompileObserver* observer,
                                           CompileStages* stages = nullptr, absl::Time begin = {});

// The same where a gradient was asked for.
absl::StatusOr<v1::GradientResponse> GradientFromResult(v1::CompileJobResult result);

// The same of a step of a search: never more schedules than the `most` that were asked for.
absl::StatusOr<compiler::Choices> ChoicesFromResult(v1::CompileJobResult result, uint32_t most);

// The failure of a compilation whose process ended, or answered nonsense.
absl::Status CompilerFault(absl::string_view what);

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_JOB_H_
