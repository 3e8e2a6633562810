// The figures of this machine's core, measured once for each model of CPU: a file keeps them.
//
// A file says nothing that could make a program wrong, only slow, and it is rounded as what was measured is. So it has
// no seal, other than the programs beside it.
#ifndef KILN_RUNTIME_DRIVERS_CPU_CORE_KNOWN_CORE_H_
#define KILN_RUNTIME_DRIVERS_CPU_CORE_KNOWN_CORE_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/target.pb.h"

namespace kiln::runtime::cpu {

struct KnownCore {
  v1::Target::Tuning::Core core;  // empty: not known
  bool measured = false;          // now, and not read
  std::string file;               // its name; empty: there is none, or the system does not name the CPU
  absl::Status read,
      written;  // why there were no good figures in it (NOT_FOUND: no file), and why they are not there now
};

// Of the file in `folder`, which is made if it is not there, or else of `measure`, and kept there for the next; an
// empty `folder` keeps nothing. `cpu` says which CPU that is, of CpuModel; "" if that is not known.
KnownCore FindCore(const std::string& folder, const std::string& cpu,
                   absl::FunctionRef<v1::Target::Tuning::Core()> measure);

// "GenuineIntel 6 207 2 Intel(R) Xeon(R) Platinum 8592+", of the lines of /proc/cpuinfo; "" if they do not say.
std::string CpuModel(absl::string_view cpuinfo);

// "core-GenuineIntel-6-207-2-….txtpb": letters, digits and '-' of that.
std::string CoreFileName(absl::string_view cpu);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_CORE_KNOWN_CORE_H_
