// Wire graphs as C, compiled by this machine's C compiler.
#ifndef KILN_TESTS_SUPPORT_ENGINES_C_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_C_ENGINE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/options/options.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/source_texts.h"

namespace kiln::testing {

// Many programs in one shared object: a call of the C compiler costs far more
// than a kernel.
class CEngine {
 public:
  CEngine() = default;
  ~CEngine();
  CEngine(const CEngine&) = delete;
  CEngine& operator=(const CEngine&) = delete;

  // Renders `graph`; the number to Run it by.
  absl::StatusOr<size_t> Add(const v1::Graph& graph, const compiler::Options& options);
  // Compiles all that was added, with the flags that the text itself names.
  absl::Status Build();
  // Results and written storage begin as a pattern, so that what nobody writes shows.
  // Shapes are the greatest, over all values of the variables, which have one each.
  absl::StatusOr<compiler::InterpResult> Run(size_t program, const compiler::HostTensors& arguments,
                                             const compiler::VariableValues& variables = {});

 private:
  SourceTexts texts_;
  std::vector<v1::Executable> programs_;
  void* library_ = nullptr;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_C_ENGINE_H_
