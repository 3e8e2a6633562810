// What a tenant that is alone pays for the queue that would share the device with others.
#ifndef KILN_TESTS_BENCH_LOAD_ALONE_H_
#define KILN_TESTS_BENCH_LOAD_ALONE_H_

#include <cstdint>

#include "server/engine/engine.h"

namespace kiln::bench {

struct AlonePrice {
  double turns_micros = 0;   // a run, by its turn, as the server has it
  double device_micros = 0;  // handed to the device as it comes
  double ratio = 0;          // of the two, the median of pairs
};

// Runs of so many sines (loads.h), of which so many are asked for at once, for so many seconds: by turns, and straight
// to the device's queue, and again, each for some hundredths of a second. The engine has nothing else to do.
AlonePrice PriceAlone(server::Engine& engine, int64_t elements, int at_once, double seconds);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_LOAD_ALONE_H_
