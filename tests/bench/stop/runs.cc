// Runs on a CPU: in a kernel, one row for each way in which it can be long, and between the kernels of a long list.
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "compiler/compile.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "tests/bench/stop/places.h"
#include "tests/support/endless.h"
#include "tests/support/transfers.h"

namespace kiln::bench {
namespace {

using runtime::hal::BufferSlice;

// Of one run of the list: each is over in less than a microsecond, so all that is looked at is what is between them.
constexpr int kLaunches = 100'000;

// A program on a device, with memory for its arguments and results. Results are touched beforehand: what the system
// needs to find memory is not the kernel's time.
class Loaded {
 public:
  Loaded(runtime::hal::Device& device, const v1::Graph& graph, const std::vector<std::string>& arguments, int launches)
      : device_(device) {
    auto executable = compiler::Compile(graph, device.target(), compiler::Options());
    if (!executable.ok()) std::fprintf(stderr, "%s\n", executable.status().ToString().c_str());
    KILN_CHECK(executable.ok());
    const v1::Step step = executable->steps(0);
    while (executable->steps_size() < launches) *executable->add_steps() = step;
    auto loaded = runtime::Load(*executable, device);
    KILN_CHECK(loaded.ok());
    program_ = *std::move(loaded);
    for (const std::string& bytes : arguments) arguments_.push_back(Filled(bytes));
    for (const auto& result : executable->signature().results()) {
      results_.push_back(result.has_aliases() ? arguments_[result.aliases()]
                                              : Filled(std::string(result.bytes(), '\0')));
    }
  }

  End Run(const runtime::hal::LaunchControl& control) const {
    runtime::RunOptions options;
    options.results = results_;
    options.control = control;
    return Awaited([&](auto done) {
      runtime::Executor().Run(program_, arguments_, options,
                              [done](const absl::StatusOr<runtime::RunResult>& result) { done(result.status()); });
    });
  }

 private:
  BufferSlice Filled(const std::string& bytes) const {
    auto buffer = device_.allocator().Allocate(bytes.size(), runtime::hal::MemoryUse::kClient);
    KILN_CHECK(buffer.ok());
    const BufferSlice slice = BufferSlice::Whole(*std::move(buffer));
    KILN_CHECK(testing::Write(device_, bytes, slice).ok());
    return slice;
  }

  runtime::hal::Device& device_;
  std::shared_ptr<runtime::LoadedExecutable> program_;
  std::vector<BufferSlice> arguments_, results_;
};

}  // namespace

void RunRows(Stops& stops, uint32_t threads) {
  auto device = runtime::cpu::CreateDevice({.threads = threads});
  KILN_CHECK(device.ok());
  for (const testing::EndlessProgram& program : testing::EndlessPrograms()) {
    if (!stops.Wants(program.name)) continue;
    const Loaded loaded(**device, program.graph, program.arguments, /*launches=*/1);
    stops.Row(program.name, [&](const auto& control) { return loaded.Run(control); });
  }
  if (const std::string name = "a long list of small kernels"; stops.Wants(name)) {
    const Loaded loaded(**device, testing::CountsFor(16), {std::string(4, '\0')}, kLaunches);
    stops.Row(name, [&](const auto& control) { return Again([&] { return loaded.Run(control); }); });
  }
}

}  // namespace kiln::bench
