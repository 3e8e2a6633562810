// The drivers that the suite runs on: a row each.
#ifndef KILN_TESTS_HAL_DEVICES_H_
#define KILN_TESTS_HAL_DEVICES_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/device.h"

namespace kiln::testing {

// Parts of the interfaces that a driver may lack.
enum class Feature {
  kCode,        // modules hold machine code, which computes; other bytes are refused
  kHostMemory,  // the host sees the device's memory
  kCache,       // freed memory is kept for the next request
  kPeers,       // devices copy from each other's memory without the host
  kPair,        // there are two devices
  kLoss,        // a test can have a device lost
};

// Devices of one driver (two, or one where there is no second), and what they depend on.
class Machine {
 public:
  virtual ~Machine() = default;

  // Compiles `graph` for `target` so that these devices can load it: by the compiler alone, unless a
  // driver needs more.
  virtual absl::StatusOr<v1::Executable> Compile(const v1::Graph& graph, const v1::Target& target);

  // Makes every later call on the first device fail. Only if the row has kLoss and the machine was
  // opened with Losing::kYes.
  virtual void LoseFirst() {}

  std::vector<std::unique_ptr<runtime::hal::Device>> devices;
  std::string absent;  // why there are no devices; empty if there are
  // What these devices lack, and why, where it is not the driver that lacks it (DeviceRow::lacks).
  std::map<Feature, const char*> lacks;

 protected:
  // Waits for all work, then destroys the devices. Derived classes call it in their destructors,
  // before what the devices depend on goes.
  void Close();
};

// Whether the test will lose the first device: some drivers must know when they open it.
enum class Losing { kNo, kYes };

struct DeviceRow {
  const char* name;
  v1::Target::Kind kind;
  std::unique_ptr<Machine> (*open)(Losing losing);
  // What the driver lacks, and why: tests of it are skipped as unsupported.
  std::map<Feature, const char*> lacks;
};

// All rows of this program: devices.cc has those of drivers on this computer and on fakes, cards.cc
// those of real GPUs.
const std::vector<DeviceRow>& DeviceRows();

// The order of tests' parameters.
std::vector<const DeviceRow*> RowPointers();

}  // namespace kiln::testing

#endif  // KILN_TESTS_HAL_DEVICES_H_
