// The compiler, as the composition root gives it.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_COMPILE_FN_H_
#define KILN_SERVER_ENGINE_PROGRAMS_COMPILE_FN_H_

#include <functional>

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::server {

// compiler/compile.h's. The observer may be null.
using CompileFn = std::function<absl::StatusOr<v1::Executable>(const v1::Graph&, const v1::Target&,
                                                               const compiler::Options&, compiler::CompileObserver*)>;

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_COMPILE_FN_H_
