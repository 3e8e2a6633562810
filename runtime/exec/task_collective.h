// Which transfers of a program for several devices are collectives.
//
// The compiler says what a transfer is by the layouts; whether runtime/collective can do
// it also depends on the devices that those stand for. What it cannot do is copied box
// by box.
#ifndef KILN_RUNTIME_EXEC_TASK_COLLECTIVE_H_
#define KILN_RUNTIME_EXEC_TASK_COLLECTIVE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kiln/v1/graph.pb.h"
#include "kiln/v1/multi_program.pb.h"
#include "runtime/collective/collective.h"
#include "runtime/hal/device.h"
#include "runtime/plan/box_copy.h"

namespace kiln::runtime {

// One side of a transfer, share by share.
struct TransferEnd {
  const ValueLayout* layout = nullptr;
  std::vector<uint32_t> slices;
  std::vector<hal::Device*> devices;
};

// A collective::Request but for its memory: that is slices of the run's.
struct TaskCollective {
  collective::Kind kind = collective::Kind::kAllReduce;
  collective::ReduceOp op = collective::ReduceOp::kSum;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  uint64_t count = 0;
  uint32_t root = 0;
  std::vector<hal::Device*> devices;
  std::vector<uint32_t> inputs, outputs;
  // The number of its report.
  uint32_t index = 0;
};

// One that has run.
struct RanCollective {
  collective::Kind kind = collective::Kind::kAllReduce;
  uint64_t bytes = 0;  // of the whole tensor
  collective::Report report;
};

// Nothing for an op that is none of a reduction over devices.
std::optional<collective::ReduceOp> ToReduceOp(v1::Op op);

// Nothing where the layouts are not those of the step's kind, a device is there twice,
// or the root takes no part.
std::optional<TaskCollective> CollectiveOf(const v1::TransferStep& step, v1::DType dtype, const TransferEnd& from,
                                           const TransferEnd& to);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_TASK_COLLECTIVE_H_
