// Names become slots, statements instructions.
#ifndef KILN_TESTS_SUPPORT_PTX_DECODE_H_
#define KILN_TESTS_SUPPORT_PTX_DECODE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/support/ptx/program.h"
#include "tests/support/ptx/syntax/syntax.h"

namespace kiln::testing::ptx {

// One function, while it is decoded.
class FunctionDecoder {
 public:
  FunctionDecoder(const ModuleText& module, const FunctionText& text, const Program& program);
  absl::StatusOr<std::unique_ptr<Function>> Decode();

  // For the files of families of instructions. All failures are NotUnderstood.
  absl::Status Fail(absl::string_view what) const;
  // Exactly `count` operands.
  absl::Status Count(size_t count) const;
  const Operand& operand(size_t number) const { return statement_->operands[number]; }
  size_t operands() const { return statement_->operands.size(); }
  // Of a register to write; "_" is one that nobody reads.
  absl::StatusOr<uint32_t> Result(const Operand& operand);
  // Of a register, a number, a special register or a variable's address.
  absl::StatusOr<uint32_t> Source(const Operand& operand);
  // A slot and what is to be added to it.
  absl::StatusOr<std::pair<uint32_t, int64_t>> Address(const Operand& operand);
  // {a, b} or one alone: slots in a row.
  absl::StatusOr<uint32_t> ResultList(const Operand& operand, size_t count);
  absl::StatusOr<uint32_t> SourceList(const Operand& operand, size_t count);
  // One more number behind the last list: what is known when it is decoded.
  void AppendToList(uint32_t number) { function_->lists.push_back(number); }
  uint32_t Constant(uint64_t value);
  uint8_t BitsOf(const Operand& operand) const;
  void SayThatThreadsMeet() { function_->meets = true; }
  void SayThatEnginesTakePart() { function_->has_engines = true; }

 private:
  struct Register {
    uint32_t slot = 0;
    uint32_t bytes = 0;
    uint32_t count = 0;  // of a row of them; 0: one, whose name is whole
  };
  void PlaceRegisters();
  void PlaceVariable(const Variable& variable);
  std::optional<Register> FindRegister(absl::string_view name) const;
  absl::StatusOr<uint32_t> AddressOf(absl::string_view name, uint64_t offset);
  absl::StatusOr<uint32_t> SpecialRegister(absl::string_view name);
  absl::StatusOr<uint32_t> List(const Operand& operand, size_t count, bool results);
  absl::StatusOr<Instruction> One();
  absl::StatusOr<std::optional<Instruction>> AluInstruction();
  absl::StatusOr<std::optional<Instruction>> Control();
  absl::StatusOr<uint32_t> Label(const Operand& operand) const;
  void PlaceDynamicShared();

  const ModuleText& module_;
  const FunctionText& text_;
  const Program& program_;
  const Statement* statement_ = nullptr;
  std::unique_ptr<Function> function_;
  std::map<std::string, Register> registers_;
  std::map<uint64_t, uint32_t> constants_;
  std::map<std::string, uint32_t> special_;
  std::map<std::string, uint64_t, std::less<>> places_;  // of variables: what a name stands for
  std::vector<std::pair<uint32_t, uint64_t>> dynamic_;   // slots that hold addresses in dynamic shared memory
  uint32_t dynamic_align_ = 16;
};

// Families of instructions, by the opcode's first word. None: it is not of this family.
using Decoded = absl::StatusOr<std::optional<Instruction>>;
Decoded DecodeMemory(FunctionDecoder& decoder, const std::vector<std::string>& words);
Decoded DecodeWarp(FunctionDecoder& decoder, const std::vector<std::string>& words);
Decoded DecodeMatrix(FunctionDecoder& decoder, const std::vector<std::string>& words);
Decoded DecodeAsync(FunctionDecoder& decoder, const std::vector<std::string>& words);
Decoded DecodeMbarrier(FunctionDecoder& decoder, const std::vector<std::string>& words);
Decoded DecodeBulkCopy(FunctionDecoder& decoder, const std::vector<std::string>& words);
Decoded DecodeWarpGroup(FunctionDecoder& decoder, const std::vector<std::string>& words);

// By what stands between "atom.…" and the type, and the type: "add.u32".
Atomic FindAtomic(absl::string_view name);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_DECODE_H_
