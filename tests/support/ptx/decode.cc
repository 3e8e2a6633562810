#include "tests/support/ptx/decode.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "tests/support/ptx/alu.h"

namespace kiln::testing::ptx {
namespace {

uint32_t AlignedTo(uint32_t align, uint64_t value) {
  return static_cast<uint32_t>((value + align - 1) / align * align);
}

void AddOffset(uint64_t* slots, const Instruction& i) {
  slots[i.at[0]] = slots[i.at[1]] + static_cast<uint64_t>(i.offset);
}
void NegateSource(uint64_t* slots, const Instruction& i) { slots[i.at[0]] = ~slots[i.at[1]] & 1; }

}  // namespace

FunctionDecoder::FunctionDecoder(const ModuleText& module, const FunctionText& text, const Program& program)
    : module_(module), text_(text), program_(program), function_(std::make_unique<Function>()) {
  function_->slots.assign(kFirstFreeSlot, 0);
  function_->slots[kTrueSlot] = 1;
}

absl::Status FunctionDecoder::Fail(absl::string_view what) const {
  return NotUnderstood(statement_ == nullptr ? text_.line : statement_->line,
                       statement_ == nullptr ? std::string(what) : absl::StrCat("`", statement_->text, "`: ", what));
}
absl::Status FunctionDecoder::Count(size_t count) const {
  return operands() == count ? absl::OkStatus() : Fail(absl::StrCat("takes ", count, " operands"));
}

void FunctionDecoder::PlaceRegisters() {
  for (const auto& [name, declared] : text_.registers) {
    registers_[name] = {static_cast<uint32_t>(function_->slots.size()), declared.second.bytes, declared.first};
    // What nobody wrote is NaN, too.
    const uint64_t unwritten =
        declared.second.bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * declared.second.bytes) - 1;
    function_->slots.resize(function_->slots.size() + std::max<uint32_t>(declared.first, 1), unwritten);
  }
}

// "%rd12" is number 12 of "%rd<40>".
std::optional<FunctionDecoder::Register> FunctionDecoder::FindRegister(absl::string_view name) const {
  const auto whole = registers_.find(std::string(name));
  if (whole != registers_.end() && whole->second.count == 0) return whole->second;
  size_t digits = name.size();
  while (digits > 0 && absl::ascii_isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  const auto row = registers_.find(std::string(name.substr(0, digits)));
  uint32_t number = 0;
  if (row == registers_.end() || !absl::SimpleAtoi(name.substr(digits), &number) || number >= row->second.count)
    return std::nullopt;
  return Register{row->second.slot + number, row->second.bytes, 0};
}

uint32_t FunctionDecoder::Constant(uint64_t value) {
  const auto [found, is_new] = constants_.emplace(value, static_cast<uint32_t>(function_->slots.size()));
  if (is_new) function_->slots.push_back(value);
  return found->second;
}

void FunctionDecoder::PlaceVariable(const Variable& variable) {
  if (variable.space == Space::kLocal) {
    places_[variable.name] = AlignedTo(variable.align, function_->local_bytes);
    function_->local_bytes = static_cast<uint32_t>(places_[variable.name] + variable.bytes);
  } else if (variable.space == Space::kShared && variable.is_extern) {
    dynamic_align_ = std::max(dynamic_align_, variable.align);
  } else if (variable.space == Space::kShared) {
    uint32_t& used = function_->entry.static_shared_bytes;
    places_[variable.name] = AlignedTo(variable.align, used);
    used = static_cast<uint32_t>(places_[variable.name] + variable.bytes);
  }
}

absl::StatusOr<uint32_t> FunctionDecoder::AddressOf(absl::string_view name, uint64_t offset) {
  const auto placed = places_.find(name);
  if (placed != places_.end()) return Constant(placed->second + offset);
  const auto in_program = program_.variables.find(std::string(name));
  if (in_program != program_.variables.end()) return Constant(in_program->second.range.begin + offset);
  for (const Variable& variable : module_.variables) {
    if (variable.name != name || variable.space != Space::kShared) continue;
    PlaceVariable(variable);
    if (!variable.is_extern) return Constant(places_.find(name)->second + offset);
    function_->slots.push_back(0);
    dynamic_.emplace_back(static_cast<uint32_t>(function_->slots.size() - 1), offset);
    return dynamic_.back().first;
  }
  return Fail(absl::StrCat("nothing is named ", name));
}

// Behind all that has its place already.
void FunctionDecoder::PlaceDynamicShared() {
  for (const auto& [slot, offset] : dynamic_)
    function_->slots[slot] = AlignedTo(dynamic_align_, function_->entry.static_shared_bytes) + offset;
  function_->entry.static_shared_bytes =
      AlignedTo(dynamic_.empty() ? 1 : dynamic_align_, function_->entry.static_shared_bytes);
}

absl::StatusOr<uint32_t> FunctionDecoder::SpecialRegister(absl::string_view name) {
  struct Row {
    const char* name;
    Special special;
    bool axes;
  };
  static constexpr Row kRows[] = {
      {"%tid", Special::kItem, true},       {"%ntid", Special::kItems, true},
      {"%ctaid", Special::kGroup, true},    {"%nctaid", Special::kGroups, true},
      {"%laneid", Special::kLane, false},   {"%warpid", Special::kWarp, false},
      {"%nwarpid", Special::kWarps, false}, {"%lanemask_lt", Special::kLanesBelow, false},
  };
  const auto known = special_.find(std::string(name));
  if (known != special_.end()) return known->second;
  for (const Row& row : kRows) {
    for (uint8_t axis = 0; axis < (row.axes ? 3 : 1); ++axis) {
      if (name != (row.axes ? absl::StrCat(row.name, ".", std::string(1, "xyz"[axis])) : std::string(row.name)))
        continue;
      const auto slot = static_cast<uint32_t>(function_->slots.size());
      function_->slots.push_back(0);
      function_->specials.push_back({slot, row.special, axis});
      return special_[std::string(name)] = slot;
    }
  }
  return Fail(absl::StrCat("there is no register ", name));
}

absl::StatusOr<uint32_t> FunctionDecoder::Source(const Operand& operand) {
  if (operand.kind == Operand::Kind::kNumber) return Constant(operand.bits);
  if (operand.kind != Operand::Kind::kName || !operand.second.empty())
    return Fail("a register or a number should be where there is something else");
  if (operand.negated) return Fail("a negated operand");
  if (const auto found = FindRegister(operand.name)) {
    if (operand.bits != 0) return Fail("a register and a number");
    return found->slot;
  }
  if (operand.name == "WARP_SZ") return Constant(32);
  if (absl::StartsWith(operand.name, "%")) return SpecialRegister(operand.name);
  return AddressOf(operand.name, operand.bits);
}

absl::StatusOr<uint32_t> FunctionDecoder::Result(const Operand& operand) {
  if (operand.kind == Operand::Kind::kSink) return kSinkSlot;
  if (operand.kind == Operand::Kind::kName && operand.bits == 0) {
    if (const auto found = FindRegister(operand.name)) return found->slot;
  }
  return Fail("a register should be where the result goes");
}

absl::StatusOr<std::pair<uint32_t, int64_t>> FunctionDecoder::Address(const Operand& operand) {
  if (operand.kind != Operand::Kind::kAddress || !operand.parts.empty()) return Fail("an address in brackets");
  const auto offset = static_cast<int64_t>(operand.bits);
  if (operand.name.empty()) return std::make_pair(Constant(0), offset);
  if (const auto found = FindRegister(operand.name)) return std::make_pair(found->slot, offset);
  KILN_ASSIGN_OR_RETURN(const uint32_t slot, AddressOf(operand.name, 0));
  return std::make_pair(slot, offset);
}

absl::StatusOr<uint32_t> FunctionDecoder::List(const Operand& operand, size_t count, bool results) {
  const bool alone = operand.kind != Operand::Kind::kList;
  if (alone ? count != 1 : operand.parts.size() != count) return Fail(absl::StrCat("a list of ", count));
  const auto begin = static_cast<uint32_t>(function_->lists.size());
  for (size_t n = 0; n < count; ++n) {
    const Operand& part = alone ? operand : operand.parts[n];
    KILN_ASSIGN_OR_RETURN(const uint32_t slot, results ? Result(part) : Source(part));
    function_->lists.push_back(slot);
  }
  return begin;
}
absl::StatusOr<uint32_t> FunctionDecoder::ResultList(const Operand& operand, size_t count) {
  return List(operand, count, true);
}
absl::StatusOr<uint32_t> FunctionDecoder::SourceList(const Operand& operand, size_t count) {
  return List(operand, count, false);
}

uint8_t FunctionDecoder::BitsOf(const Operand& operand) const {
  const Operand& first = operand.kind == Operand::Kind::kList && !operand.parts.empty() ? operand.parts[0] : operand;
  const auto found = FindRegister(first.name);
  return !found.has_value() ? 64 : static_cast<uint8_t>(8 * found->bytes);
}

// An opcode of the table; or moves of several registers, or of addresses between spaces.
absl::StatusOr<std::optional<Instruction>> FunctionDecoder::AluInstruction() {
  Instruction i;
  i.at.fill(kTrueSlot);
  i.at[5] = kSinkSlot;
  std::string name = statement_->opcode;
  std::vector<Operand> operands = statement_->operands;
  if (absl::StartsWith(name, "mov.b") && operands.size() == 2) {
    const bool packs = operands[1].kind == Operand::Kind::kList, unpacks = operands[0].kind == Operand::Kind::kList;
    uint32_t bits = 0;
    if (packs || unpacks) {
      const std::vector<Operand> parts = operands[packs ? 1 : 0].parts;
      if (parts.empty() || !absl::SimpleAtoi(name.substr(5), &bits)) return Fail("registers of equal width");
      name = absl::StrCat(packs ? "pack." : "unpack.", parts.size(), "x", bits / parts.size());
      const Operand other = operands[packs ? 0 : 1];
      operands = parts;
      operands.insert(packs ? operands.begin() : operands.end(), other);
    }
    if (unpacks) {
      KILN_ASSIGN_OR_RETURN(i.at[5], Source(operands.back()));
    }
  }
  const auto found = AluInstructions().find(name);
  if (found == AluInstructions().end()) return std::nullopt;
  if (operands.size() != found->second.operands)
    return Fail(absl::StrCat("takes ", found->second.operands, " operands"));
  const bool unpacks = absl::StartsWith(name, "unpack");
  for (size_t n = 0; n < operands.size(); ++n) {
    if (unpacks && n + 1 == operands.size()) continue;
    if (n == 0 || unpacks) {
      KILN_ASSIGN_OR_RETURN(i.at[n], Result(operands[n]));
    } else if (operands[n].negated) {  // setp's third
      Operand plain = operands[n];
      plain.negated = false;
      Instruction negation;
      negation.alu = NegateSource;
      KILN_ASSIGN_OR_RETURN(negation.at[1], Source(plain));
      function_->slots.push_back(0);
      negation.at[0] = i.at[n] = static_cast<uint32_t>(function_->slots.size() - 1);
      function_->code.push_back(negation);
      function_->texts.push_back(statement_->text);
    } else {
      KILN_ASSIGN_OR_RETURN(i.at[n], Source(operands[n]));
    }
  }
  if (!operands[0].second.empty()) {
    KILN_ASSIGN_OR_RETURN(i.at[5], Result(operands[0].second[0]));
  }
  i.alu = found->second.alu;
  i.offset = found->second.parameter;
  i.result_bits = BitsOf(operands[0]);
  return i;
}

absl::StatusOr<uint32_t> FunctionDecoder::Label(const Operand& operand) const {
  const auto found = text_.labels.find(operand.name);
  if (operand.kind != Operand::Kind::kName || found == text_.labels.end()) return Fail("a label that is there");
  return static_cast<uint32_t>(found->second);
}

// Targets are numbers of statements here.
absl::StatusOr<std::optional<Instruction>> FunctionDecoder::Control() {
  Instruction i;
  const std::vector<std::string> words = absl::StrSplit(statement_->opcode, '.');
  const std::string& opcode = statement_->opcode;
  if (opcode == "bra" || opcode == "bra.uni") {
    KILN_RETURN_IF_ERROR(Count(1));
    i.kind = Kind::kBranch;
    KILN_ASSIGN_OR_RETURN(i.target, Label(operand(0)));
  } else if (opcode == "brx.idx" || opcode == "brx.idx.uni") {
    KILN_RETURN_IF_ERROR(Count(2));
    const auto targets = text_.branch_targets.find(operand(1).name);
    if (targets == text_.branch_targets.end()) return Fail("a list of targets that is there");
    i.kind = Kind::kIndexedBranch;
    KILN_ASSIGN_OR_RETURN(i.at[0], Source(operand(0)));
    i.target = static_cast<uint32_t>(function_->tables.size());
    function_->tables.emplace_back();
    for (const std::string& target : targets->second) {
      const auto found = text_.labels.find(target);
      if (found == text_.labels.end()) return Fail(absl::StrCat("there is no label ", target));
      function_->tables.back().push_back(static_cast<uint32_t>(found->second));
    }
  } else if (opcode == "ret" || opcode == "ret.uni" || opcode == "exit") {
    KILN_RETURN_IF_ERROR(Count(0));
    i.kind = Kind::kExit;
  } else if (opcode == "trap" || opcode == "brkpt") {
    i.kind = Kind::kTrap;
  } else if (words[0] == "cvta") {
    KILN_RETURN_IF_ERROR(Count(2));
    const bool to = words.size() > 2 && words[1] == "to";
    if (words.size() != (to ? 4 : 3) || words.back() != "u64") return Fail("an opcode that is not known");
    const std::string& space = words[to ? 2 : 1];
    uint64_t window = 0;
    // A cluster is of one group here.
    if (space == "shared" || space == "shared::cta" || space == "shared::cluster") {
      window = kSharedWindow;
    } else if (space == "local") {
      window = kLocalWindow;
    } else if (space == "param") {
      window = kParamWindow;
    } else if (space != "global" && space != "const") {
      return Fail("a space that is not known");
    }
    i.alu = AddOffset;
    i.offset = static_cast<int64_t>(to ? 0 - window : window);
    KILN_ASSIGN_OR_RETURN(i.at[0], Result(operand(0)));
    KILN_ASSIGN_OR_RETURN(i.at[1], Source(operand(1)));
  } else {
    return std::nullopt;
  }
  return i;
}

absl::StatusOr<Instruction> FunctionDecoder::One() {
  const std::vector<std::string> words = absl::StrSplit(statement_->opcode, '.');
  for (const auto decode :
       {DecodeMemory, DecodeWarp, DecodeMatrix, DecodeAsync, DecodeMbarrier, DecodeBulkCopy, DecodeWarpGroup}) {
    KILN_ASSIGN_OR_RETURN(std::optional<Instruction> found, decode(*this, words));
    if (found.has_value()) return *found;
  }
  KILN_ASSIGN_OR_RETURN(std::optional<Instruction> found, Control());
  if (found.has_value()) return *found;
  KILN_ASSIGN_OR_RETURN(found, AluInstruction());
  if (found.has_value()) return *found;
  return Fail("an opcode that is not known");
}

absl::StatusOr<std::unique_ptr<Function>> FunctionDecoder::Decode() {
  function_->entry.name = text_.name;
  function_->entry.max_items = text_.max_items;
  for (const Variable& parameter : text_.parameters) {
    const uint32_t place = AlignedTo(parameter.align, function_->parameter_bytes);
    places_[parameter.name] = place;
    function_->entry.parameter_bytes.push_back(static_cast<uint32_t>(parameter.bytes));
    function_->parameter_offsets.push_back(place);
    function_->parameter_bytes = static_cast<uint32_t>(place + parameter.bytes);
  }
  PlaceRegisters();
  for (const Variable& variable : text_.variables) PlaceVariable(variable);
  std::vector<uint32_t> starts;  // of each statement's instructions
  for (const Statement& statement : text_.statements) {
    statement_ = &statement;
    starts.push_back(static_cast<uint32_t>(function_->code.size()));
    KILN_ASSIGN_OR_RETURN(Instruction i, One());
    if (!statement.guard.empty()) {
      const auto guard = FindRegister(statement.guard);
      if (!guard.has_value()) return Fail("a predicate that is there");
      i.guard = guard->slot;
      i.guard_negated = statement.guard_negated;
    }
    function_->code.push_back(i);
    function_->texts.push_back(statement.text);
  }
  statement_ = nullptr;
  starts.push_back(static_cast<uint32_t>(function_->code.size()));
  Instruction end;
  end.kind = Kind::kExit;
  function_->code.push_back(end);
  function_->texts.emplace_back("the end");
  for (Instruction& i : function_->code) {
    if (i.kind == Kind::kBranch) i.target = starts[i.target];
  }
  for (std::vector<uint32_t>& table : function_->tables) {
    for (uint32_t& target : table) target = starts[target];
  }
  PlaceDynamicShared();
  return std::move(function_);
}

absl::StatusOr<std::unique_ptr<Program>> Decode(const ModuleText& text) {
  auto program = std::make_unique<Program>();
  for (const Variable& variable : text.variables) {
    if (variable.space != Space::kGlobal && variable.space != Space::kConst) continue;
    if (variable.is_extern) return NotUnderstood(variable.line, "a variable of another module");
    Storage& storage = program->variables[variable.name];
    storage.owner = std::make_unique<char[]>(variable.bytes + variable.align);
    std::fill_n(storage.owner.get(), variable.bytes + variable.align, '\0');
    uint64_t begin = reinterpret_cast<uint64_t>(storage.owner.get());
    begin = (begin + variable.align - 1) / variable.align * variable.align;
    storage.range = {begin, variable.bytes, variable.space == Space::kGlobal};
    std::memcpy(reinterpret_cast<char*>(begin), variable.initial.data(), variable.initial.size());
  }
  for (const Variable& variable : text.variables) {
    for (const auto& [offset, target] : variable.references) {
      const auto found = program->variables.find(target.name);
      if (found == program->variables.end()) return NotUnderstood(variable.line, "the address of what is not there");
      const uint64_t address = found->second.range.begin + target.bits;
      std::memcpy(reinterpret_cast<char*>(program->variables[variable.name].range.begin + offset), &address, 8);
    }
  }
  for (const FunctionText& function : text.functions) {
    KILN_ASSIGN_OR_RETURN(program->functions[function.name], FunctionDecoder(text, function, *program).Decode());
  }
  return program;
}

}  // namespace kiln::testing::ptx
