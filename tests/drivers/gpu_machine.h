// A machine with GPUs of either vendor that are not there, for tests of the drivers.
#ifndef KILN_TESTS_DRIVERS_GPU_MACHINE_H_
#define KILN_TESTS_DRIVERS_GPU_MACHINE_H_

#include <memory>
#include <string>
#include <vector>

#include "kiln/v1/executable.pb.h"
#include "runtime/drivers/gpu/device.h"
#include "tests/support/fake_gpu/fake_control.h"

namespace kiln::testing {

class GpuMachine {
 public:
  virtual ~GpuMachine() = default;

  // "CUDA" or "HIP".
  virtual const char* kind() const = 0;
  virtual Fake& fake() = 0;
  // With the vendor's library for collectives, or without.
  virtual runtime::gpu::Found Find(bool collectives = false) = 0;
  // The entry point of that meaning: "allocate", "load", "launch", "finish", "fill",
  // "capture", "graph" (the launch of one), "reach" and "peer copy".
  virtual std::string Entry(const std::string& meaning) const = 0;
  // Where code lies from which the library's fake cannot tell what it does, beside the IR that says it, as KILN_DUMP
  // leaves both (fake_hip); empty if it can.
  virtual std::string code_folder() const { return ""; }
  // One for this machine's cards with a kernel "k" that copies 32 floats to its
  // first operand from its second.
  virtual v1::Executable Program() = 0;
};

std::unique_ptr<GpuMachine> MakeCudaMachine();
std::unique_ptr<GpuMachine> MakeHipMachine();  // gfx942
// With cards of that architecture, one of AMD's.
std::unique_ptr<GpuMachine> MakeHipMachineOf(const std::string& architecture);

}  // namespace kiln::testing

#endif  // KILN_TESTS_DRIVERS_GPU_MACHINE_H_
