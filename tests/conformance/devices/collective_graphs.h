// tinyspec's collectives as graphs: compositions of COPY, REPLICATED, movement and REDUCE.
#ifndef KILN_TESTS_CONFORMANCE_DEVICES_COLLECTIVE_GRAPHS_H_
#define KILN_TESTS_CONFORMANCE_DEVICES_COLLECTIVE_GRAPHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/wire_builder.h"

namespace kiln::testing {

// D0, D1, ...
inline std::vector<std::string> Devices(int64_t n) {
  std::vector<std::string> devices;
  for (int64_t i = 0; i < n; ++i) devices.push_back(absl::StrCat("D", i));
  return devices;
}

// tinyspec's functions of the same names, over D0, ..., D(n-1).
class Collectives {
 public:
  explicit Collectives(int64_t n) : n_(n) {}

  // Slot 0, int32 of this shape, on one device or on all.
  Node Input(int64_t size, bool all) {
    const Node input = b_.Param(0, compiler::DType::kInt32, {size});
    for (const std::string& device : Devices(all ? n_ : 1)) b_.last()->mutable_buffer()->add_device(device);
    return input;
  }
  Node Copy(Node x, int64_t devices) {
    const Node copy = b_.Add(v1::COPY, {x});
    for (const std::string& device : Devices(devices)) b_.last()->mutable_load()->add_device(device);
    return copy;
  }
  Node Replicated(Node x) {
    const Node replica = b_.Add(v1::REPLICATED, {x});
    b_.last()->set_index(0);
    return replica;
  }
  Node Broadcast(Node x, int64_t s) { return Replicated(Copy(b_.Expand(b_.Reshape(x, {{1, s}}), {{n_, s}}), n_)); }
  Node Scatter(Node x) { return Copy(x, n_); }
  Node Gather(Node x) { return Copy(x, 1); }
  Node Reduce(Node x, int64_t s) { return b_.Reshape(b_.Reduce(b_.Reshape(Gather(x), {{n_, s}}), v1::ADD, {0}), {s}); }
  Node AllGather(Node x, int64_t size) { return Broadcast(x, size); }
  Node ReduceScatter(Node x, int64_t s) {
    const Node blocks = b_.Permute(b_.Reshape(x, {{n_, n_, s / n_}}), {{1, 0, 2}});
    return b_.Reshape(b_.Reduce(Copy(blocks, n_), v1::ADD, {1}), {s});
  }
  Node AllReduce(Node x, int64_t s) { return AllGather(ReduceScatter(x, s), s); }

  v1::Graph Graph(Node result) {
    b_.Add(v1::TUPLE, {result});
    return b_.graph();
  }

 private:
  const int64_t n_;
  WireBuilder b_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_CONFORMANCE_DEVICES_COLLECTIVE_GRAPHS_H_
