// What four warps do together: wgmma, by which the tensor cores multiply matrices that they read from shared memory by
// themselves, and setmaxnreg.
//
// Products run behind the threads' backs, until wgmma.wait_group. Here they run as late as may be: when they are waited
// for. Until then the accumulators' registers hold a pattern that is NaN.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <list>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/support/ptx/alu.h"
#include "tests/support/ptx/decode.h"
#include "tests/support/ptx/group.h"

namespace kiln::testing::ptx {
namespace {

constexpr size_t kThreads = 128, kRows = 64, kDepth = 16;
constexpr uint64_t kTaken = 0xffffffff;  // a register that the tensor cores have

// What the opcode and its immediates say, kept as the instruction's number.
struct Product {
  bool brain = false;  // bfloat16, not float16
  bool negates_a = false, negates_b = false;
  bool a_by_depth = false, b_by_depth = false;  // element after element lies along the depth's other axis
  int64_t Number() const {
    return (brain ? 1 : 0) | (negates_a ? 2 : 0) | (negates_b ? 4 : 0) | (a_by_depth ? 8 : 0) | (b_by_depth ? 16 : 0);
  }
  static Product Of(int64_t number) {
    return {(number & 1) != 0, (number & 2) != 0, (number & 4) != 0, (number & 8) != 0, (number & 16) != 0};
  }
};

// A matrix descriptor: how 16-bit elements of a matrix lie in shared memory, row x depth.
struct Descriptor {
  uint64_t begin, leading, stride;
  uint32_t swizzle_bytes;

  explicit Descriptor(uint64_t bits)
      : begin((bits & 0x3fff) << 4), leading((bits >> 16 & 0x3fff) << 4), stride((bits >> 32 & 0x3fff) << 4) {
    static constexpr uint32_t kSwizzles[] = {0, 128, 64, 32};
    swizzle_bytes = kSwizzles[bits >> 62];
  }

  // Cores of 8 x 16 bytes. Without a swizzle they are compact; with one, 16-byte pieces of a core are one row of
  // `swizzle_bytes` apart, and neighbours fill the rows.
  uint64_t Address(uint64_t row, uint64_t depth, bool by_depth) const {
    const uint64_t bytes = swizzle_bytes;
    uint64_t at = begin;
    if (!by_depth) {
      at += row / 8 * stride;
      at += bytes == 0 ? row % 8 * 16 + depth / 8 * leading + depth % 8 * 2 : row % 8 * bytes + depth * 2;
    } else if (bytes == 0) {
      at += row / 8 * stride + row % 8 * 2 + depth / 8 * leading + depth % 8 * 16;
    } else {
      at += row / (bytes / 2) * leading + row % (bytes / 2) * 2 + depth / 8 * stride + depth % 8 * bytes;
    }
    return Swizzled(at, swizzle_bytes);
  }
};

// rows x kDepth values; nothing if the group has failed.
std::vector<double> Matrix(Group& group, Thread& thread, uint64_t descriptor, size_t rows, bool by_depth, bool brain,
                           bool negates) {
  const Descriptor layout(descriptor);
  std::vector<double> values(rows * kDepth);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t depth = 0; depth < kDepth; ++depth) {
      const char* place =
          group.Locate(thread, Space::kShared, layout.Address(row, depth, by_depth), 2, Use::kEngineRead);
      if (place == nullptr) return {};
      uint16_t bits = 0;
      std::memcpy(&bits, place, 2);
      const double value = brain ? Brain::Value(bits) : Half::Value(bits);
      values[row * kDepth + depth] = negates ? -value : value;
    }
  }
  return values;
}

WarpGroup& Of(Group& group, const Thread& first) { return group.warp_groups[first.number / kThreads]; }

// Where element `e` of a thread's accumulators is in the product: 16 rows for each warp.
std::pair<size_t, size_t> PlaceOf(size_t thread, size_t e) {
  const size_t lane = thread % 32;
  return {thread / 32 * 16 + lane / 4 + e % 4 / 2 * 8, e / 4 * 8 + lane % 4 * 2 + e % 2};
}

bool Finish(Group& group, Thread& first, const WarpGroup::Product& asked) {
  const Product product = Product::Of(asked.instruction->offset);
  const size_t each = asked.to->slots.size(), columns = 2 * each;
  const std::vector<double> a =
      Matrix(group, first, asked.a, kRows, product.a_by_depth, product.brain, product.negates_a);
  if (a.empty()) return false;
  const std::vector<double> b =
      Matrix(group, first, asked.b, columns, product.b_by_depth, product.brain, product.negates_b);
  if (b.empty()) return false;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    for (size_t e = 0; e < each; ++e) {
      const auto [row, column] = PlaceOf(thread, e);
      float& value = asked.to->values[thread * each + e];
      double sum = asked.adds ? value : 0;
      for (size_t k = 0; k < kDepth; ++k) sum = std::fma(a[row * kDepth + k], b[column * kDepth + k], sum);
      value = static_cast<float>(sum);
    }
  }
  --asked.to->products;
  return true;
}

// Registers whose last product is done are the threads' again.
bool HandBack(Group& group, Thread& first) {
  std::list<Accumulators>& all = Of(group, first).accumulators;
  for (auto done = all.begin(); done != all.end();) {
    if (done->products != 0) {
      ++done;
      continue;
    }
    for (size_t n = 0; n < kThreads; ++n) {
      Thread& thread = group.threads[first.number + n];
      for (size_t e = 0; e < done->slots.size(); ++e) {
        uint64_t& slot = thread.slots[done->slots[e]];
        if (slot != kTaken)
          return group.Fail(thread, "an accumulator of a wgmma.mma_async was written before it was waited for");
        slot = Bits(done->values[n * done->slots.size() + e]);
      }
    }
    done = all.erase(done);
  }
  return true;
}

bool Multiply(Group& group, Thread& first, const Instruction& i) {
  WarpGroup& warps = Of(group, first);
  const uint32_t* list = group.function->lists.data() + i.list;
  const std::vector<uint32_t> slots(list, list + i.count);
  for (const uint32_t at : {i.at[0], i.at[1], i.at[2]}) {
    for (size_t thread = 1; thread < kThreads; ++thread) {
      if (group.threads[first.number + thread].slots[at] != first.slots[at])
        return group.Fail(group.threads[first.number + thread], "the threads' descriptors or scales differ");
    }
  }
  Accumulators* to = nullptr;
  for (Accumulators& each : warps.accumulators) {
    if (each.slots == slots) {
      to = &each;
    } else if (std::find_first_of(slots.begin(), slots.end(), each.slots.begin(), each.slots.end()) != slots.end()) {
      return group.Fail(first, "takes some of the accumulators of a product that is under way");
    }
  }
  if (to == nullptr) {
    if (!warps.fenced) return group.Fail(first, "no wgmma.fence came before, since the registers were the threads'");
    to = &warps.accumulators.emplace_back();
    to->slots = slots;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      for (const uint32_t slot : slots) {
        uint64_t& value = group.threads[first.number + thread].slots[slot];
        to->values.push_back(As<float>(value));
        value = kTaken;
      }
    }
  }
  ++to->products;
  warps.products.back().push_back(
      {&i, first.slots[i.at[0]], first.slots[i.at[1]], (first.slots[i.at[2]] & 1) != 0, to});
  return true;
}

bool FenceRegisters(Group& group, Thread& first, const Instruction&) {
  Of(group, first).fenced = true;
  return true;
}
bool Commit(Group& group, Thread& first, const Instruction&) {
  Of(group, first).products.emplace_back();
  return true;
}
bool Wait(Group& group, Thread& first, const Instruction& i) {
  WarpGroup& warps = Of(group, first);
  while (warps.products.size() > static_cast<size_t>(i.offset) + 1) {
    for (const WarpGroup::Product& product : warps.products.front()) {
      if (!Finish(group, first, product)) return false;
    }
    warps.products.pop_front();
  }
  warps.fenced = false;
  return HandBack(group, first);
}

// wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {…}, a, b, adds, ±1, ±1, transposes a, transposes b
Decoded MultiplyOf(FunctionDecoder& d, const std::vector<std::string>& words) {
  unsigned columns = 0;
  int read = 0;
  if (words.size() != 8 || words[2] != "sync" || words[3] != "aligned" ||
      std::sscanf(words[4].c_str(), "m64n%uk16%n", &columns, &read) != 1 || words[4][static_cast<size_t>(read)] != 0 ||
      columns % 8 != 0 || columns < 8 || columns > 256)
    return d.Fail("a shape that is not known");
  if (words[5] != "f32" || (words[6] != "bf16" && words[6] != "f16") || words[6] != words[7])
    return d.Fail("types that are not known");
  KILN_RETURN_IF_ERROR(d.Count(8));
  Instruction i;
  i.count = static_cast<uint8_t>(columns / 2);
  KILN_ASSIGN_OR_RETURN(i.list, d.ResultList(d.operand(0), i.count));
  for (size_t n = 0; n < 3; ++n) {
    KILN_ASSIGN_OR_RETURN(i.at[n], d.Source(d.operand(n + 1)));
  }
  for (size_t n = 4; n < 8; ++n) {
    const auto value = static_cast<int64_t>(d.operand(n).bits);
    if (d.operand(n).kind != Operand::Kind::kNumber || (n < 6 ? value != 1 && value != -1 : value != 0 && value != 1))
      return d.Fail("two signs, 1 or -1, and two numbers, 0 or 1");
  }
  const auto is = [&](size_t n, int64_t value) { return static_cast<int64_t>(d.operand(n).bits) == value; };
  i.offset = Product{words[6] == "bf16", is(4, -1), is(5, -1), is(6, 1), is(7, 1)}.Number();
  i.warp_group_use = Multiply;
  return i;
}

}  // namespace

Decoded DecodeWarpGroup(FunctionDecoder& d, const std::vector<std::string>& words) {
  Instruction i;
  if (words[0] == "wgmma" && words.size() > 1) {
    if (words[1] == "mma_async") {
      KILN_ASSIGN_OR_RETURN(const std::optional<Instruction> product, MultiplyOf(d, words));
      i = *product;
    } else if (words.size() != 4 || words[2] != "sync" || words[3] != "aligned") {
      return d.Fail("an opcode that is not known");
    } else if (words[1] == "wait_group") {
      KILN_RETURN_IF_ERROR(d.Count(1));
      if (d.operand(0).kind != Operand::Kind::kNumber || d.operand(0).bits > 7) return d.Fail("0 to 7 groups");
      i.offset = static_cast<int64_t>(d.operand(0).bits);
      i.warp_group_use = Wait;
    } else {
      KILN_RETURN_IF_ERROR(d.Count(0));
      i.warp_group_use = words[1] == "fence" ? FenceRegisters : words[1] == "commit_group" ? Commit : nullptr;
      if (i.warp_group_use == nullptr) return d.Fail("an opcode that is not known");
    }
    d.SayThatEnginesTakePart();
  } else if (words[0] == "setmaxnreg") {
    // How many registers there are changes no value.
    if (words.size() != 5 || (words[1] != "inc" && words[1] != "dec") || words[2] != "sync" || words[3] != "aligned" ||
        words[4] != "u32")
      return d.Fail("an opcode that is not known");
    KILN_RETURN_IF_ERROR(d.Count(1));
    const uint64_t registers = d.operand(0).bits;
    if (d.operand(0).kind != Operand::Kind::kNumber || registers < 24 || registers > 256 || registers % 8 != 0)
      return d.Fail("24 to 256 registers, in eights");
  } else {
    return std::nullopt;
  }
  i.kind = Kind::kWarpGroup;
  d.SayThatThreadsMeet();
  return i;
}

}  // namespace kiln::testing::ptx
