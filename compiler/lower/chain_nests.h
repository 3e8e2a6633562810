// The nests of a chain of kernels (schedule/chain/chain.h), each as a kernel of its own, and all of them as one.
// Tested by tests/conformance/schedules/chains_test.
#ifndef KILN_COMPILER_LOWER_CHAIN_NESTS_H_
#define KILN_COMPILER_LOWER_CHAIN_NESTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

bool IsChain(const UOp* kernel);

class ChainNests {
 public:
  // `kernel` is a chain.
  ChainNests(Graph& graph, UOp* kernel);

  size_t size() const { return nests_.size(); }
  // Of local memory, that slices take, and what is lowered so far.
  int64_t local_bytes() const { return local_bytes_; }

  // One nest as a kernel: what others make, and it makes, are PARAMs, and which slice it is are variables.
  UOp* Kernel(size_t number) const;

  // What became of it: a SINK with accumulators. In ascending order of number.
  void SetLowered(size_t number, UOp* sink);

  // Once all are lowered: all of them, in one loop over the slices.
  UOp* Whole() const;

 private:
  struct Nest {
    UOp* body;    // END(STORE, loops...)
    UOp* buffer;  // what it fills, with what is AFTER that; null for the last
    UOp* made;
    UOp* storage;  // a PARAM in the place of both
    UOp* lowered;
  };

  UOp* Storage(const UOp* buffer);
  UOp* Variable(const UOp* range);

  Graph& graph_;
  UOp* kernel_;
  std::vector<Nest> nests_;  // in the order in which they run
  std::vector<UOp*> slices_, variables_;
  int64_t local_bytes_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_CHAIN_NESTS_H_
