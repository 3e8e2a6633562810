// cp.async.bulk.tensor: the copy engine brings a box of a tensor to shared memory, and tells an mbarrier.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "tests/support/ptx/decode.h"
#include "tests/support/ptx/group.h"
#include "tests/support/ptx/mbarrier.h"

namespace kiln::testing::ptx {
namespace {

constexpr uint32_t kPiece = 16;  // bytes that change places as one

// The map is a parameter, constant, or in global memory; never in shared.
const char* FindMap(Group& group, Thread& thread, uint64_t address) {
  if (address % 64 != 0) {
    group.Fail(thread, absl::StrFormat("the tensor map's address 0x%x is not aligned to 64", address));
    return nullptr;
  }
  if (address / kSharedWindow == 3) {
    const uint64_t offset = address - kParamWindow;
    const uint32_t bytes = group.function->parameter_bytes;
    if (offset < bytes && bytes - offset >= kTensorMapBytes) return group.parameters + offset;
  } else if (const char* found = group.memory->Find(address, kTensorMapBytes, false)) {
    return found;
  }
  group.Fail(thread, absl::StatusCode::kOutOfRange, "the tensor map is not there");
  return nullptr;
}

// The row of the box along the innermost axis with these numbers along the others: where it begins in the tensor, or
// none if it lies outside along one of them.
std::optional<uint64_t> RowAddress(const BulkCopy& copy, const std::array<uint32_t, 5>& in_box) {
  uint64_t address = copy.map.address;
  for (uint32_t axis = 1; axis < copy.map.rank; ++axis) {
    const int64_t index = int64_t{copy.at[axis]} + in_box[axis];
    if (index < 0 || index >= static_cast<int64_t>(copy.map.sizes[axis])) return std::nullopt;
    address += static_cast<uint64_t>(index) * copy.map.strides[axis - 1];
  }
  return address;
}

// The next row; false after the last.
bool Next(const BulkCopy& copy, std::array<uint32_t, 5>& in_box) {
  for (uint32_t axis = 1; axis < copy.map.rank; ++axis) {
    if (++in_box[axis] < copy.map.box[axis]) return true;
    in_box[axis] = 0;
  }
  return false;
}

// What of a row lies inside of the tensor: from which element of the box, and how many.
std::pair<int64_t, int64_t> Inside(const BulkCopy& copy) {
  const int64_t first = std::max<int64_t>(0, -int64_t{copy.at[0]});
  const int64_t end = std::min<int64_t>(copy.map.box[0], static_cast<int64_t>(copy.map.sizes[0]) - copy.at[0]);
  return {first, std::max<int64_t>(0, end - first)};
}

bool CheckSource(Group& group, Thread& thread, const BulkCopy& copy) {
  const auto [first, count] = Inside(copy);
  if (count == 0) return true;
  std::array<uint32_t, 5> in_box = {};
  do {
    const std::optional<uint64_t> row = RowAddress(copy, in_box);
    const uint64_t bytes = static_cast<uint64_t>(count) * copy.map.element_bytes;
    const int64_t from = (copy.at[0] + first) * copy.map.element_bytes;
    if (row.has_value() && group.memory->Find(*row + static_cast<uint64_t>(from), bytes, false) == nullptr)
      return group.Fail(thread, absl::StatusCode::kOutOfRange,
                        absl::StrFormat("copies %d bytes from 0x%x of global memory, which are not there", bytes,
                                        *row + static_cast<uint64_t>(from)));
  } while (Next(copy, in_box));
  return true;
}

// Every 16 bytes of the box, in order, where they come to lie.
template <typename Visit>
bool ForEachPiece(Group& group, const BulkCopy& copy, const Visit& visit) {
  for (uint32_t offset = 0; offset < copy.bytes; offset += kPiece) {
    char* place = group.Locate(*copy.thread, Space::kShared, Swizzled(copy.to + offset, copy.map.swizzle_bytes), kPiece,
                               Use::kEngineWrite);
    if (place == nullptr) return false;
    visit(offset, place);
  }
  return true;
}

}  // namespace

// Until its mbarrier says so, the destination holds the pattern of what nobody wrote.
bool BeginBulkCopy(Group& group, Thread& thread, const Instruction& i) {
  const char* place = FindMap(group, thread, thread.slots[i.at[1]] + static_cast<uint64_t>(i.offset));
  if (place == nullptr) return false;
  const std::optional<TensorMap> map = DecodeTensorMap(place);
  if (!map.has_value()) return group.Fail(thread, "this is no tensor map");
  const uint32_t* list = group.function->lists.data() + i.list;
  if (map->rank != i.count) return group.Fail(thread, absl::StrCat("the map's tensor has ", map->rank, " axes"));
  BulkCopy copy;
  copy.thread = &thread;
  copy.to = (thread.slots[i.at[0]] + list[i.count]) & 0xffffffff;
  copy.mbarrier = (thread.slots[i.at[2]] + list[i.count + 1]) & 0xffffffff;
  copy.map = *map;
  copy.bytes = map->element_bytes;
  for (uint32_t axis = 0; axis < map->rank; ++axis) {
    copy.at[axis] = static_cast<int32_t>(thread.slots[list[axis]]);
    copy.bytes *= map->box[axis];
  }
  if (copy.to % 128 != 0) return group.Fail(thread, absl::StrFormat("0x%x is not aligned to 128", copy.to));
  if (!CheckMbarrierOfEngine(group, thread, copy.mbarrier) || !CheckSource(group, thread, copy)) return false;
  if (!ForEachPiece(group, copy, [](uint32_t, char* to) { std::memset(to, kUnwritten, kPiece); })) return false;
  group.bulk_copies.push_back(copy);
  return true;
}

bool FinishOldestBulkCopy(Group& group) {
  const BulkCopy copy = group.bulk_copies.front();
  group.bulk_copies.pop_front();
  std::vector<char> box(copy.bytes, '\0');
  const auto [first, count] = Inside(copy);
  const uint32_t row_bytes = copy.map.box[0] * copy.map.element_bytes;
  std::array<uint32_t, 5> in_box = {};
  char* to = box.data();
  do {
    const std::optional<uint64_t> row = RowAddress(copy, in_box);
    const int64_t from = (copy.at[0] + first) * copy.map.element_bytes;
    if (row.has_value() && count > 0)
      std::memcpy(to + first * copy.map.element_bytes,
                  reinterpret_cast<const char*>(*row + static_cast<uint64_t>(from)),
                  static_cast<size_t>(count) * copy.map.element_bytes);
    to += row_bytes;
  } while (Next(copy, in_box));
  const auto bring = [&](uint32_t offset, char* place) { std::memcpy(place, box.data() + offset, kPiece); };
  return ForEachPiece(group, copy, bring) && BringBytes(group, *copy.thread, copy.mbarrier, copy.bytes);
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [to], [map, {x, y}], [mbarrier]
Decoded DecodeBulkCopy(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words.size() < 3 || words[0] != "cp" || words[1] != "async" || words[2] != "bulk") return std::nullopt;
  const bool tile = words.size() == 9 && words[7] == "tile";
  if (words.size() < 8 || words[3] != "tensor" || words[4].size() != 2 || words[4][1] != 'd' || words[4][0] < '1' ||
      words[4][0] > '5' || (words[5] != "shared::cluster" && words[5] != "shared::cta") || words[6] != "global" ||
      words.back() != "mbarrier::complete_tx::bytes" || (words.size() != 8 && !tile))
    return d.Fail("an opcode that is not known");
  KILN_RETURN_IF_ERROR(d.Count(3));
  Instruction i;
  i.kind = Kind::kBulkCopy;
  i.count = static_cast<uint8_t>(words[4][0] - '0');
  KILN_ASSIGN_OR_RETURN(const auto to, d.Address(d.operand(0)));
  KILN_ASSIGN_OR_RETURN(const auto mbarrier, d.Address(d.operand(2)));
  Operand map = d.operand(1);
  if (map.kind != Operand::Kind::kAddress || map.parts.size() != 1) return d.Fail("a tensor map and coordinates");
  const Operand coordinates = map.parts[0];
  map.parts.clear();
  KILN_ASSIGN_OR_RETURN(const auto from, d.Address(map));
  i.at[0] = to.first;
  i.at[1] = from.first;
  i.at[2] = mbarrier.first;
  i.offset = from.second;
  KILN_ASSIGN_OR_RETURN(i.list, d.SourceList(coordinates, i.count));
  d.AppendToList(static_cast<uint32_t>(to.second));
  d.AppendToList(static_cast<uint32_t>(mbarrier.second));
  d.SayThatThreadsMeet();
  d.SayThatEnginesTakePart();
  return i;
}

}  // namespace kiln::testing::ptx
