// A wire graph, compiled for a device and run on it by the runtime.
#ifndef KILN_TESTS_SUPPORT_ENGINES_DEVICE_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_DEVICE_ENGINE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/options/options.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/buffer.h"

namespace kiln::runtime {
class LoadedExecutable;
class RuntimeObserver;
namespace hal {
class Device;
}
}  // namespace kiln::runtime

namespace kiln::testing {

// Compiles, loads and runs. One thread at a time. With KILN_DUMP=dir in the environment, every
// stage of each compilation is written there.
class DeviceEngine {
 public:
  // What it compiles for is the device's target.
  explicit DeviceEngine(std::unique_ptr<runtime::hal::Device> device);
  ~DeviceEngine();

  // The first half of Run: a program that RunLoaded takes many times.
  absl::StatusOr<std::shared_ptr<runtime::LoadedExecutable>> Load(const v1::Graph& graph,
                                                                  const compiler::Options& options);

  // The same for what has been compiled.
  absl::StatusOr<std::shared_ptr<runtime::LoadedExecutable>> Load(const v1::Executable& executable);

  // Results are fresh buffers, filled with a pattern before the run, so that an
  // element nobody writes shows.
  absl::StatusOr<compiler::InterpResult> Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                             const compiler::Options& options,
                                             const compiler::VariableValues& variables = {});
  absl::StatusOr<compiler::InterpResult> RunLoaded(const std::shared_ptr<runtime::LoadedExecutable>& program,
                                                   const compiler::HostTensors& arguments,
                                                   const compiler::VariableValues& variables = {});

  // A program beside its arguments and results in device memory, to be run there
  // again and again; results that are arguments are empty.
  struct Placed {
    std::shared_ptr<runtime::LoadedExecutable> program;
    std::vector<runtime::hal::BufferSlice> parameters, results;
    std::vector<int64_t> variables;
  };
  absl::StatusOr<Placed> Place(std::shared_ptr<runtime::LoadedExecutable> program,
                               const compiler::HostTensors& arguments, const compiler::VariableValues& variables = {});
  // Runs it `count` times, queued one behind the other, so that the device's threads
  // do not fall asleep in between. How many seconds the steps of each took, without
  // the way to the queue and back.
  absl::StatusOr<std::vector<double>> RunPlaced(const Placed& placed, int count = 1);

  // The shortest of `turns` runs, in place and warm, of the steps alone.
  absl::StatusOr<double> BestSeconds(const std::shared_ptr<runtime::LoadedExecutable>& program,
                                     const compiler::HostTensors& arguments, int turns);

  // From now on parameters and results lie in buffers that `make` makes.
  using BufferMaker = std::function<std::shared_ptr<runtime::hal::Buffer>(runtime::hal::Device&, uint64_t bytes)>;
  void set_buffers(BufferMaker make) { make_buffer_ = std::move(make); }

  // From now on programs are compiled for `target`, which this machine must be able to run.
  void set_target(v1::Target target) { target_ = std::move(target); }

  // From now on `observer` watches all runs; it must outlive them.
  void set_observer(runtime::RuntimeObserver* observer) { observer_ = observer; }

  runtime::hal::Device& device() const { return *device_; }

 private:
  // Filled with a pattern.
  absl::StatusOr<runtime::hal::BufferSlice> NewBuffer(uint64_t bytes);
  absl::StatusOr<compiler::HostTensor> ReadBack(v1::DType dtype, const std::vector<int64_t>& shape,
                                                const runtime::hal::BufferSlice& slice);

  std::unique_ptr<runtime::hal::Device> device_;
  v1::Target target_;
  BufferMaker make_buffer_;
  runtime::RuntimeObserver* observer_ = nullptr;
};

// Exact arithmetic: no contraction.
compiler::Options ExactOptions();

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_DEVICE_ENGINE_H_
