// Which devices a graph names.
#ifndef KILN_BASE_GRAPH_DEVICES_H_
#define KILN_BASE_GRAPH_DEVICES_H_

#include "kiln/v1/graph.pb.h"

namespace kiln {

// Whether it names a tuple of devices: then its program is for several. One device by
// name makes no such graph; a program is for the device that it is compiled for,
// whatever its name. Looks at each node once, and trusts none.
inline bool NamesSeveralDevices(const v1::Graph& graph) {
  for (const v1::UOp& node : graph.nodes()) {
    if (node.op() == v1::MSTACK || node.buffer().device_size() > 1 || node.load().device_size() > 1) return true;
  }
  return false;
}

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_DEVICES_H_
