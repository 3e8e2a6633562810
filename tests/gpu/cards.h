// The GPUs of this machine.
#ifndef KILN_TESTS_GPU_CARDS_H_
#define KILN_TESTS_GPU_CARDS_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/support/engines/device_engine.h"

namespace kiln::testing {

struct Cards {
  std::vector<std::unique_ptr<DeviceEngine>> engines;  // one for each card that there is code for
  std::string absent;                                  // why there are no others; a line for each kind
};

// All that the drivers of this machine list.
Cards FindCards();

}  // namespace kiln::testing

#endif  // KILN_TESTS_GPU_CARDS_H_
