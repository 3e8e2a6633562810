// Which bytes of its buffers a sequence reads, and which it overwrites: what counts of
// what they held before, and what no longer does behind it.
#ifndef KILN_RUNTIME_PLAN_SEQUENCE_BYTES_H_
#define KILN_RUNTIME_PLAN_SEQUENCE_BYTES_H_

#include <cstdint>
#include <map>
#include <vector>

namespace kiln::runtime {

// Bytes [begin, end) of a run's buffer.
struct SequenceBytes {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool empty() const { return begin == end; }
};

// Of one buffer. Its steps' parameters are told in the order of the steps; of one step,
// those that are read or partly written before those that are overwritten.
class SequenceUse {
 public:
  // It counts what the bytes hold, unless an earlier step has overwritten them all.
  void Reads(SequenceBytes bytes);
  // They are written, wholly or in part.
  void Changes(SequenceBytes bytes) { Stretch(changed_, bytes); }
  // Wholly, and whatever they held.
  void Overwrites(SequenceBytes bytes);

  // From the first byte to the last.
  SequenceBytes read() const { return read_; }
  SequenceBytes changed() const { return changed_; }
  // The longest row of them.
  SequenceBytes overwritten() const;

 private:
  static void Stretch(SequenceBytes& all, SequenceBytes bytes);

  SequenceBytes read_, changed_;
  std::map<uint64_t, uint64_t> overwritten_;  // begin -> end; disjoint, and not beside each other
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_PLAN_SEQUENCE_BYTES_H_
