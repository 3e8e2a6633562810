// Programs on rows of a variable number, at random: what a client would build, and what mixes rows on purpose.
#ifndef KILN_TESTS_BATCH_ROW_MAKER_H_
#define KILN_TESTS_BATCH_ROW_MAKER_H_

#include <cstdint>

#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

// Slots of the variables: "batch", the number of rows, and "tokens", another.
inline constexpr uint32_t kBatch = 20, kTokens = 21;

// A graph with `mixed_steps` values that most likely mix rows, and then more of them; the last is a result, and
// mixes them if `last_mixes`. The same for the same seed, on every machine.
v1::Graph MakeRowGraph(uint64_t seed, int mixed_steps, bool last_mixes);

}  // namespace kiln::testing

#endif  // KILN_TESTS_BATCH_ROW_MAKER_H_
