// What a client may choose about a compilation.
#ifndef KILN_COMPILER_OPTIONS_OPTIONS_H_
#define KILN_COMPILER_OPTIONS_OPTIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kiln::compiler {

// What a request may ask for: refused above these, with the limit named.
struct Limits {
  uint32_t max_nodes = 200'000;
  uint64_t max_bytes = 64 << 20;
  uint32_t max_depth = 100'000;
  uint32_t max_stack_sources = 1024;  // of one STACK of values; longer lists are BINARY data
  uint32_t max_kernels = 16'384;      // of one program
  // Of a program written by hand.
  uint32_t max_instructions = 50'000;      // a vector counts each lane
  uint32_t max_lanes = 256;                // of one vector
  uint32_t max_items = 1024;               // of one work group
  uint32_t max_groups = 0x7fff'ffff;       // along one axis
  uint32_t max_local_bytes = 64 << 10;     // of one work group
  uint32_t max_register_bytes = 16 << 10;  // of one work item
  // Whether ops that carry a client's own code are accepted.
  bool allow_native_code = false;
  uint64_t max_item_work = 2'000'000'000;     // of one work item of a GPU's kernel, which cannot be stopped
  uint64_t max_work = 1'000'000'000'000'000;  // simple operations of one run of a program
  uint64_t max_run_seconds = 3600;            // of one run on the device, as it is estimated (Cost.run_ns)

  bool operator==(const Limits&) const = default;
};

// What a search found (tune.h): the schedule's text (opt/schedule_text.h) of a kernel, by its symbol.
using ScheduleMap = std::map<std::string, std::string>;

// Every field but `limits` changes the generated code, so Fingerprint() goes
// into the program key whole; `schedules` is not in it, but the search that found them
// is. No pass reads any other setting.
struct Options {
  bool contraction = true;     // a*b+c may become one fused multiply-add
  bool deterministic = false;  // reduction order independent of thread count
  bool fast_math = false;      // rewrites beyond docs/ir.md's bounds
  bool strict = false;         // refuse what cannot be proved in bounds
  bool guard_arrays = false;   // for tests: a program that leaves a LOCAL or REG array ends the process
  // The width of a search for schedules, and the time it may take; 0: rules choose them.
  // The compiler itself does not search: tune.h does.
  uint32_t beam = 0;
  uint32_t beam_budget_ms = 0;
  // Slots of parameters, ascending, that hold the same from run to run: what is made of one alone may be made once.
  std::vector<uint32_t> constants;
  // In place of what the rules choose, where a kernel has one here. May be null.
  std::shared_ptr<const ScheduleMap> schedules;
  // Optional passes to leave out, by name: "simplify ranges", "optimize".
  std::vector<std::string> disabled_passes;
  Limits limits;

  std::string Fingerprint() const;
  bool operator==(const Options&) const = default;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPTIONS_OPTIONS_H_
