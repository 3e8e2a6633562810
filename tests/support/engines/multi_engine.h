// A wire graph on tuples of devices, compiled and run on several CPU devices.
#ifndef KILN_TESTS_SUPPORT_ENGINES_MULTI_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_MULTI_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/options/options.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/multi_program.pb.h"
#include "runtime/collective/collective.h"
#include "runtime/exec/program.h"
#include "runtime/hal/device.h"

namespace kiln::testing {

// One thread at a time.
class MultiEngine {
 public:
  // D0, D1, ...; the first is the request's device. They share one pool of threads. With
  // `as_one`, all these names are one device's.
  explicit MultiEngine(int devices, bool as_one = false);
  ~MultiEngine();

  absl::StatusOr<v1::MultiProgram> Compile(const v1::Graph& graph, const compiler::Options& options) const;
  absl::StatusOr<std::shared_ptr<const runtime::Program>> Load(const v1::MultiProgram& program) const;

  // Arguments and results are whole values. What is whole on several devices must be the
  // same on all. Results are filled with a pattern before the run.
  absl::StatusOr<compiler::InterpResult> Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                             const compiler::Options& options,
                                             const compiler::VariableValues& variables = {});
  absl::StatusOr<compiler::InterpResult> RunLoaded(const std::shared_ptr<const runtime::Program>& program,
                                                   const compiler::HostTensors& arguments,
                                                   const compiler::VariableValues& variables = {});

  const std::vector<std::unique_ptr<runtime::hal::Device>>& devices() const { return devices_; }
  runtime::collective::Collectives& collectives() { return collectives_; }

 private:
  const bool as_one_;
  std::vector<std::unique_ptr<runtime::hal::Device>> devices_;
  runtime::collective::Meetings meetings_;
  runtime::collective::Thresholds thresholds_{"", ""};
  runtime::collective::Collectives collectives_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_MULTI_ENGINE_H_
