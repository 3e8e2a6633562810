// Puts a MultiProgram together from a cut and its segments' executables: which memory
// each value has on each device, and which steps read and write it.
#ifndef KILN_COMPILER_LOWER_PROGRAM_BUILDER_H_
#define KILN_COMPILER_LOWER_PROGRAM_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/shard/segments.h"
#include "compiler/shard/shares.h"
#include "kiln/v1/multi_program.pb.h"

namespace kiln::compiler {

class ProgramBuilder {
 public:
  // All outlive the builder. `root` is the graph that was taken apart.
  ProgramBuilder(Graph& graph, UOp* root, const Shares& shares, const Levels& levels, const Cut& cut);

  // For each segment of the cut, in order.
  void AddExecutable(v1::Executable executable) { executables_.push_back(std::move(executable)); }

  // Once. SIZE_OVERFLOW for more bytes than any memory has.
  absl::StatusOr<v1::MultiProgram> Build();

 private:
  // Memory of its own, the same number of bytes on each of its devices.
  struct Memory {
    v1::PlacedValue::Space space = v1::PlacedValue::ARENA;
    uint32_t index = 0;
    std::vector<uint32_t> devices;
    uint64_t bytes = 0;
    int first = -1;  // the steps that use it
    int last = -1;
    bool overwritten = false;  // the first step stores to all of it, and reads none
    std::vector<uint64_t> offsets = {};
  };
  static constexpr size_t kNone = ~size_t{0};

  std::vector<uint32_t> DevicesOf(const std::string& devices);
  size_t AddMemory(v1::PlacedValue::Space space, size_t index, const UOp* share, const std::string& devices);
  // The memory of a value of the shares' graph, now or later.
  size_t MemoryOf(UOp* value, const std::string& devices);
  // A value that lies there.
  uint32_t ValueAt(size_t memory, const UOp* share, const Shape& whole, int axis);
  // Of one device's share alone.
  uint32_t ShareAt(size_t memory, const UOp* share);
  void Use(size_t memory, int step, bool overwrites = false);

  void AddInterface();
  void AddSegment(const Segment& segment, int step, v1::SegmentStep& message);
  void AddTransfer(const Transfer& transfer, int step, v1::TransferStep& message);
  absl::Status PlaceArenas();
  v1::Signature Signature();

  Graph& graph_;
  UOp* const root_;
  const Shares& shares_;
  const Levels& levels_;
  const Cut& cut_;
  std::vector<v1::Executable> executables_;
  v1::MultiProgram program_;

  absl::flat_hash_map<std::string, uint32_t> device_index_;
  std::vector<Memory> memories_;
  std::vector<size_t> memory_of_value_;                // by PlacedValue
  absl::flat_hash_map<const UOp*, size_t> memory_of_;  // of values that later steps find
  std::vector<size_t> memory_of_result_;               // kNone for a parameter's
  absl::flat_hash_map<uint32_t, UOp*> by_slot_;        // parameters of segments
};

// Which collective it is, if any.
v1::TransferStep::Kind KindOf(const Transfer& transfer);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_PROGRAM_BUILDER_H_
