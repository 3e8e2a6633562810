// A machine that runs PTX on host memory: what LLVM's NVPTX back end emits, instruction by
// instruction, with the values that the PTX ISA prescribes, for tests on computers without a GPU.
//
// It is a judge, so it is strict. What it does not know, it refuses to parse. An access outside of
// the given memory or across an alignment, a barrier that some threads never reach, two threads
// that touch one byte, one of them writing, with nothing that orders them: errors that name the place.
// Shared memory, and memory that an asynchronous copy has yet to fill, hold a pattern that is NaN
// as any float, so that a use too early shows in the values.
#ifndef KILN_TESTS_SUPPORT_PTX_MACHINE_H_
#define KILN_TESTS_SUPPORT_PTX_MACHINE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln::testing::ptx {

// Device memory, at addresses of the host.
struct Range {
  uint64_t begin = 0, bytes = 0;
  bool writable = false;
};

struct LaunchShape {
  std::array<uint32_t, 3> groups = {1, 1, 1}, items = {1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
};

struct LaunchLimits {
  uint64_t instructions = uint64_t{1} << 36;  // of all threads together
  bool detect_races = true;                   // in shared memory
  // In global memory, if no more than 4 MiB of it may be written. Off, as a client's own program may race.
  bool detect_global_races = false;
};

struct Program;

// What one text of PTX holds. A launch changes nothing of it but its .global variables, so launches
// of one module that has some must not overlap.
class Module {
 public:
  struct Entry {
    std::string name;
    std::vector<uint32_t> parameter_bytes;
    std::array<uint32_t, 3> max_items = {0, 0, 0};  // .maxntid or .reqntid; zeros: not said
    uint32_t static_shared_bytes = 0;
  };

  // INVALID_ARGUMENT with the line and what was not understood.
  static absl::StatusOr<std::unique_ptr<Module>> Parse(absl::string_view ptx);
  ~Module();

  // Null if there is none. Lives as long as the module.
  const Entry* Find(absl::string_view name) const;
  std::vector<const Entry*> entries() const;

  // The place of a .global or .const variable, or an empty range.
  Range Variable(absl::string_view name) const;

  // Runs all groups, one after the other. `params`: where each parameter's value is, as cuLaunchKernel
  // has it. `memory`: all that may be accessed, besides the module's own variables. A failure names
  // kernel, group, item and instruction, and leaves what was written until then.
  absl::Status Launch(const Entry& entry, const LaunchShape& shape, absl::Span<const void* const> params,
                      absl::Span<const Range> memory, const LaunchLimits& limits = {}) const;

 private:
  explicit Module(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_MACHINE_H_
