// A wire graph, compiled for this machine's CPU and run by the runtime.
#ifndef KILN_TESTS_SUPPORT_CPU_ENGINE_H_
#define KILN_TESTS_SUPPORT_CPU_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/options.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::runtime {
class Program;
namespace hal {
class Device;
}
}  // namespace kiln::runtime

namespace kiln::testing {

// Compiles, loads and runs on CPU:0. One thread at a time. With KILN_DUMP=dir in
// the environment, every stage of each compilation is written there.
class CpuEngine {
 public:
  CpuEngine();
  ~CpuEngine();

  // The first half of Run: a program that RunLoaded takes many times.
  absl::StatusOr<std::shared_ptr<runtime::Program>> Load(const v1::Graph& graph, const compiler::Options& options);

  // Results are fresh buffers, filled with a pattern before the run, so that an
  // element nobody writes shows.
  absl::StatusOr<compiler::InterpResult> Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                             const compiler::Options& options);
  absl::StatusOr<compiler::InterpResult> RunLoaded(const std::shared_ptr<runtime::Program>& program,
                                                   const compiler::HostTensors& arguments);

  const runtime::hal::Device& device() const { return *device_; }

 private:
  std::unique_ptr<runtime::hal::Device> device_;
};

// Exact arithmetic: no contraction.
compiler::Options ExactOptions();

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_CPU_ENGINE_H_
