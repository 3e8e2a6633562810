// cp.async.
#include <cstdint>

#include "absl/strings/match.h"
#include "base/error.h"
#include "tests/support/ptx/decode.h"

namespace kiln::testing::ptx {
namespace {

// cp.async.ca.shared.global [to], [from], bytes{, source bytes}
Decoded CopyOf(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words.size() < 5 || (words[2] != "ca" && words[2] != "cg") || !absl::StartsWith(words[3], "shared") ||
      words[4] != "global")
    return d.Fail("an opcode that is not known");
  for (size_t n = 5; n < words.size(); ++n) {
    if (!absl::StartsWith(words[n], "L2::")) return d.Fail("an opcode that is not known");
  }
  Instruction i;
  i.kind = Kind::kCopy;
  i.at.fill(kTrueSlot);
  if (d.operands() < 3 || d.operands() > 4) return d.Fail("takes 3 or 4 operands");
  KILN_ASSIGN_OR_RETURN(const auto to, d.Address(d.operand(0)));
  KILN_ASSIGN_OR_RETURN(const auto from, d.Address(d.operand(1)));
  i.at[0] = to.first;
  i.offset = to.second;
  i.at[1] = from.first;
  i.list = static_cast<uint32_t>(static_cast<int32_t>(from.second));
  const uint64_t bytes = d.operand(2).bits;
  const bool right = words[2] == "cg" ? bytes == 16 : bytes == 4 || bytes == 8 || bytes == 16;
  if (!right || d.operand(2).kind != Operand::Kind::kNumber) return d.Fail("copies 4, 8 or 16 bytes, .cg 16");
  i.bytes = static_cast<uint8_t>(bytes);
  if (d.operands() == 4) {
    KILN_ASSIGN_OR_RETURN(i.at[2], d.Source(d.operand(3)));
  }
  return i;
}

}  // namespace

Decoded DecodeAsync(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words[0] != "cp" || words.size() < 3 || words[1] != "async" || words[2] == "bulk") return std::nullopt;
  Instruction i;
  if (words[2] == "commit_group" && words.size() == 3) {
    KILN_RETURN_IF_ERROR(d.Count(0));
    i.kind = Kind::kCommitCopies;
    return i;
  }
  if (words[2] == "wait_all" && words.size() == 3) {
    KILN_RETURN_IF_ERROR(d.Count(0));
    i.kind = Kind::kWaitCopies;
    i.offset = -1;
    return i;
  }
  if (words[2] == "wait_group" && words.size() == 3) {
    KILN_RETURN_IF_ERROR(d.Count(1));
    if (d.operand(0).kind != Operand::Kind::kNumber) return d.Fail("a number of groups");
    i.kind = Kind::kWaitCopies;
    i.offset = static_cast<int64_t>(d.operand(0).bits);
    return i;
  }
  return CopyOf(d, words);
}

}  // namespace kiln::testing::ptx
