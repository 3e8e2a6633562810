// Programs that a CPU is busy with for many seconds, one for each place at which a stop has to be
// seen: in loops that nothing shares out, that wait for memory, that are one of many, or of which
// there is only one.
#ifndef KILN_TESTS_SUPPORT_ENDLESS_H_
#define KILN_TESTS_SUPPORT_ENDLESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

struct EndlessProgram {
  std::string name;
  v1::Graph graph;
  std::vector<std::string> arguments;  // the bytes of each parameter, by slot from 0
};

std::vector<EndlessProgram> EndlessPrograms();

// Counts up slot 0, an int32, so many times.
v1::Graph CountsFor(int64_t times);
// As often as slot 1, an int32, says.
v1::Graph CountsTo();

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENDLESS_H_
