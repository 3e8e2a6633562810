// PTX as it is written: variables, functions, and statements with their operands by name.
#ifndef KILN_TESTS_SUPPORT_PTX_SYNTAX_SYNTAX_H_
#define KILN_TESTS_SUPPORT_PTX_SYNTAX_SYNTAX_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::testing::ptx {

enum class Space : uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam };

// "s32", "b64", "f16x2", "pred" (of one byte).
struct ScalarType {
  uint32_t bytes = 0;
  bool is_signed = false;
};
std::optional<ScalarType> FindType(absl::string_view name);

struct Operand {
  enum class Kind { kName, kNumber, kAddress, kList, kSink };
  Kind kind = Kind::kSink;
  std::string name;             // kName; of kAddress, its base, or "" if it has none
  uint64_t bits = 0;            // kNumber, and what is added to the base of kAddress
  bool negated = false;         // !%p
  std::vector<Operand> parts;   // kList: {…} and (…); of kAddress, coordinates of a tensor
  std::vector<Operand> second;  // what stands after '|': none or one
};

struct Statement {
  int line = 0;
  std::string text;   // for people
  std::string guard;  // a predicate's name, or ""
  bool guard_negated = false;
  std::string opcode;  // with all its dots
  std::vector<Operand> operands;
};

struct Variable {
  Space space = Space::kGlobal;
  std::string name;
  uint32_t align = 1, element_bytes = 1;
  uint64_t bytes = 0;
  bool is_extern = false;
  std::string initial;                                   // shorter than `bytes`: zeros follow
  std::vector<std::pair<uint64_t, Operand>> references;  // 8 bytes each, of which this is the address
  int line = 0;
};

struct FunctionText {
  std::string name;
  bool is_entry = false, has_body = false;
  std::vector<Variable> parameters, results;
  std::array<uint32_t, 3> max_items = {0, 0, 0};
  // "%r" and how many; a name without a number has 0. Then bytes of each.
  std::map<std::string, std::pair<uint32_t, ScalarType>> registers;
  std::vector<Variable> variables;  // .local, .shared, .param
  std::vector<Statement> statements;
  std::map<std::string, size_t> labels;  // the statement that follows
  std::map<std::string, std::vector<std::string>> branch_targets;
  int line = 0;
};

struct ModuleText {
  std::vector<Variable> variables;
  std::vector<FunctionText> functions;
};

absl::StatusOr<ModuleText> ParseText(absl::string_view ptx);

// INVALID_ARGUMENT.
absl::Status NotUnderstood(int line, absl::string_view what);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_SYNTAX_SYNTAX_H_
