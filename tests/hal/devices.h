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

// What the interfaces leave to a driver, and not every one has.
enum class Feature {
  kCode,        // modules hold machine code: it computes, and what is none is refused
  kHostMemory,  // the host sees the device's memory
  kCache,       // freed memory is kept for the next request
  kPeers,       // devices copy from each other's memory without the host
  kPair,        // there are two devices
  kLoss,        // a test can have a device lost
};

// Devices of one driver, two where there are two, and what lies behind them.
class Machine {
 public:
  virtual ~Machine() = default;

  // For `target`, as these devices can load it. The compiler's own answer, unless a driver wants
  // more of it.
  virtual absl::StatusOr<v1::Executable> Compile(const v1::Graph& graph, const v1::Target& target);

  // From now on all that the first device is asked for fails. Only if the row has kLoss and the
  // machine was opened for it.
  virtual void LoseFirst() {}

  std::vector<std::unique_ptr<runtime::hal::Device>> devices;
  std::string absent;  // why there are no devices; empty if there are
  // What these devices do not have, where it is not the driver that lacks it (DeviceRow::lacks).
  std::map<Feature, const char*> lacks;

 protected:
  // Ends all work, then the devices. For destructors of those with something behind the devices.
  void Close();
};

// Whether a test will lose the first device, for those who must know from the start.
enum class Losing { kNo, kYes };

struct DeviceRow {
  const char* name;
  v1::Target::Kind kind;
  std::unique_ptr<Machine> (*open)(Losing losing);
  // What the driver does not have, and why: what there is to test of it is skipped as unsupported.
  std::map<Feature, const char*> lacks;
};

// All rows of this program: devices.cc has those of drivers on this computer and on fakes, cards.cc
// those of real GPUs.
const std::vector<DeviceRow>& DeviceRows();

// The order of tests' parameters.
std::vector<const DeviceRow*> RowPointers();

}  // namespace kiln::testing

#endif  // KILN_TESTS_HAL_DEVICES_H_
