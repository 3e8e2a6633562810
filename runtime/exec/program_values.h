// The values of a program for several devices, from its message: where each lies, what
// callers see of them. Tested by tests/conformance/devices/multi_run_test and multi_symbolic_test.
#ifndef KILN_RUNTIME_EXEC_PROGRAM_VALUES_H_
#define KILN_RUNTIME_EXEC_PROGRAM_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kiln/v1/multi_program.pb.h"
#include "runtime/exec/program.h"

namespace kiln::runtime {

// INTERNAL_FAULT of that field of the message.
absl::Status ProgramFault(absl::string_view field, absl::string_view why);

class ProgramValues {
 public:
  // A PlacedValue, checked.
  struct Value {
    ProgramValue value;
    std::vector<uint32_t> devices;
  };

  // With the sizes for these values of the variables, or the greatest. All outlive it;
  // `program` has its devices, its arenas and its signature.
  ProgramValues(const v1::MultiProgram& message, std::optional<VariableValues> variables, Program& program)
      : message_(message), variables_(variables), program_(program) {}

  // Fills the program's slices, parameters and results. INTERNAL_FAULT.
  absl::Status Run();

  size_t size() const { return values_.size(); }
  const Value& operator[](size_t i) const { return values_[i]; }

 private:
  // A parameter or a result that is new memory.
  struct Owned {
    uint32_t first = 0;
    std::vector<uint32_t> devices;
    uint64_t bytes = 0;
  };

  absl::Status AddValue(const v1::PlacedValue& message, int number);
  absl::Status PlaceSlice(const v1::PlacedValue& message, int share, const std::string& field, ProgramSlice& slice);
  // The symbolic ones; none is greater than the greatest.
  absl::Status SetSizes(const v1::PlacedValue& message, const std::string& field, std::vector<int64_t>& shape) const;
  template <typename Indices>
  absl::Status Expose(const Indices& indices, int count, absl::string_view field, std::vector<ProgramValue>& values);
  void FixSignature();
  // What callers bring and get, share by share.
  void AddTaken();
  void AddGiven();
  // The shape of one share of `value`, of elements of `item` bytes, or of the whole.
  PlanShape ShapeOf(const ProgramValue& value, uint32_t message, uint32_t item, bool whole) const;

  const v1::MultiProgram& message_;
  const std::optional<VariableValues> variables_;
  Program& program_;
  std::vector<Value> values_;
  absl::flat_hash_map<uint32_t, Owned> parameter_shares_, result_shares_;
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_PROGRAM_VALUES_H_
