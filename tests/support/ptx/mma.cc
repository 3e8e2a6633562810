// Tensor cores: mma.sync, and ldmatrix and stmatrix, which bring fragments to and from shared memory.
//
// All shapes distribute a matrix over the lanes by one rule. With e elements in a register, g = lane / 4 and
// t = lane % 4: register r of A holds row g + 8 (r odd, of 16 rows) and the columns from 4e (r / 2) + e t on
// (of 8 rows: row g, 4e r + e t); register r of B holds column g and the rows from 4e r + e t on; element i of
// C and D is row g + 8 (i / 2), column 2 t + i % 2.
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "tests/support/ptx/alu.h"
#include "tests/support/ptx/decode.h"
#include "tests/support/ptx/group.h"

namespace kiln::testing::ptx {
namespace {

enum class Format : uint8_t { kF16, kBf16, kTf32, kF64, kU8, kS8, kE4m3, kE5m2, kF32, kS32 };

std::optional<Format> FormatNamed(absl::string_view name) {
  if (name == "f16") return Format::kF16;
  if (name == "bf16") return Format::kBf16;
  if (name == "tf32") return Format::kTf32;
  if (name == "f64") return Format::kF64;
  if (name == "u8") return Format::kU8;
  if (name == "s8") return Format::kS8;
  if (name == "e4m3") return Format::kE4m3;
  if (name == "e5m2") return Format::kE5m2;
  if (name == "f32") return Format::kF32;
  if (name == "s32") return Format::kS32;
  return std::nullopt;
}
int BitsOf(Format format) {
  switch (format) {
    case Format::kF16:
    case Format::kBf16: return 16;
    case Format::kU8:
    case Format::kS8:
    case Format::kE4m3:
    case Format::kE5m2: return 8;
    case Format::kF64: return 64;
    case Format::kTf32:
    case Format::kF32:
    case Format::kS32: return 32;
  }
  return 0;
}

// Integers of 8 bits are doubles exactly, and so are their sums here: at most 32 of 16 bits and one of 32.
double ValueOf(Format format, uint64_t bits) {
  switch (format) {
    case Format::kF16: return Half::Value(static_cast<uint16_t>(bits));
    case Format::kBf16: return Brain::Value(static_cast<uint16_t>(bits));
    case Format::kTf32: return As<float>(bits & 0xffffe000);
    case Format::kF64: return As<double>(bits);
    case Format::kU8: return static_cast<uint8_t>(bits);
    case Format::kS8: return static_cast<int8_t>(bits);
    case Format::kE4m3: return BitsToFloat(v1::FLOAT8_E4M3, bits & 0xff);
    case Format::kE5m2: return BitsToFloat(v1::FLOAT8_E5M2, bits & 0xff);
    case Format::kF32: return As<float>(bits);
    case Format::kS32: return static_cast<int32_t>(bits);
  }
  return 0;
}

struct Shape {
  int m = 0, n = 0, k = 0;
  Format d{}, a{}, b{}, c{};
  bool saturates = false;
  int c_per_register() const { return BitsOf(c) == 16 ? 2 : 1; }
  int c_elements() const { return m / 4; }  // of one lane
  int registers_of(Format format, int rows) const {
    const int bits = rows * k / 32 * BitsOf(format);
    return bits / (BitsOf(format) == 64 ? 64 : 32);
  }
};

// The shape is kept in the instruction as a number.
int64_t Number(const Shape& s) {
  int64_t number = 0;
  for (const int part : {s.m, s.k, static_cast<int>(s.d), static_cast<int>(s.a), static_cast<int>(s.b),
                         static_cast<int>(s.c), s.saturates ? 1 : 0})
    number = number << 8 | part;
  return number;
}
Shape OfNumber(int64_t number) {
  Shape s;
  const auto part = [&](int place) { return static_cast<int>(number >> (8 * place) & 255); };
  s.m = part(6), s.n = 8, s.k = part(5);
  s.d = static_cast<Format>(part(4)), s.a = static_cast<Format>(part(3)), s.b = static_cast<Format>(part(2));
  s.c = static_cast<Format>(part(1)), s.saturates = part(0) != 0;
  return s;
}

bool WholeWarp(Group& group, const Lanes& lanes) {
  for (const Thread* thread : lanes) {
    if (thread == nullptr) return group.Fail(*lanes[0], "takes a warp of 32 lanes");
  }
  return true;
}

bool Multiplied(Group& group, const Lanes& lanes, const Instruction& i) {
  if (!WholeWarp(group, lanes)) return false;
  const Shape s = OfNumber(i.offset);
  const uint32_t* list = group.function->lists.data() + i.list;
  const int c_registers = s.c_elements() / s.c_per_register();
  const uint32_t *d_list = list, *a_list = list + c_registers, *b_list = a_list + s.registers_of(s.a, s.m),
                 *c_list = b_list + s.registers_of(s.b, s.n);
  double a[16][32], b[32][8], c[16][8];
  for (size_t lane = 0; lane < 32; ++lane) {
    const uint64_t* slots = lanes[lane]->slots;
    const int g = static_cast<int>(lane) / 4, t = static_cast<int>(lane) % 4;
    const int a_bits = BitsOf(s.a), b_bits = BitsOf(s.b);
    const int a_each = std::max(1, 32 / a_bits), b_each = std::max(1, 32 / b_bits);
    for (int r = 0; r < s.registers_of(s.a, s.m); ++r) {
      const int row = s.m == 16 ? g + 8 * (r % 2) : g, block = s.m == 16 ? r / 2 : r;
      for (int j = 0; j < a_each; ++j)
        a[row][4 * a_each * block + a_each * t + j] = ValueOf(s.a, slots[a_list[r]] >> (a_bits % 64 * j));
    }
    for (int r = 0; r < s.registers_of(s.b, s.n); ++r) {
      for (int j = 0; j < b_each; ++j)
        b[4 * b_each * r + b_each * t + j][g] = ValueOf(s.b, slots[b_list[r]] >> (b_bits % 64 * j));
    }
    for (int e = 0; e < s.c_elements(); ++e)
      c[g + 8 * (e / 2)][2 * t + e % 2] =
          ValueOf(s.c, slots[c_list[e / s.c_per_register()]] >> (16 * (e % s.c_per_register())));
  }
  for (int row = 0; row < s.m; ++row) {
    for (int column = 0; column < 8; ++column) {
      double sum = c[row][column];
      // float64 is rounded at every step; of the others a double holds the products exactly, and more of
      // the sum than any card does.
      for (int k = 0; k < s.k; ++k) sum = std::fma(a[row][k], b[k][column], sum);
      c[row][column] = sum;
    }
  }
  for (size_t lane = 0; lane < 32; ++lane) {
    uint64_t* slots = lanes[lane]->slots;
    const int g = static_cast<int>(lane) / 4, t = static_cast<int>(lane) % 4;
    for (int e = 0; e < s.c_elements(); ++e) {
      const double value = c[g + 8 * (e / 2)][2 * t + e % 2];
      uint64_t& slot = slots[d_list[e / s.c_per_register()]];
      switch (s.d) {
        case Format::kF16:
          slot = e % 2 == 0 ? Half::Rounded(value) : slot | uint64_t{Half::Rounded(value)} << 16;
          break;
        case Format::kF32: slot = Bits(static_cast<float>(value)); break;
        case Format::kF64: slot = Bits(value); break;
        default: {
          auto whole = static_cast<int64_t>(value);
          if (s.saturates) whole = std::clamp<int64_t>(whole, INT32_MIN, INT32_MAX);
          slot = static_cast<uint32_t>(whole);
        }
      }
    }
  }
  return true;
}

// mma.sync.aligned.m16n8k16.row.col{.kind::f8f6f4}{.satfinite}.f32.bf16.bf16.f32
Decoded MmaOf(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words.size() < 10 || words[1] != "sync" || words[2] != "aligned" || words[4] != "row" || words[5] != "col")
    return d.Fail("an opcode that is not known");
  Shape s;
  if (std::sscanf(words[3].c_str(), "m%dn%dk%d", &s.m, &s.n, &s.k) != 3) return d.Fail("a shape");
  size_t at = 6;
  if (words[at] == "kind::f8f6f4") ++at;
  if (words[at] == "satfinite") s.saturates = true, ++at;
  if (words.size() != at + 4) return d.Fail("four types");
  Format* const formats[] = {&s.d, &s.a, &s.b, &s.c};
  for (size_t n = 0; n < 4; ++n) {
    const std::optional<Format> format = FormatNamed(words[at + n]);
    if (!format.has_value()) return d.Fail("a type that is not known");
    *formats[n] = *format;
  }
  // What there is: rows, bits of an element of A, and columns of A.
  static constexpr int kShapes[][3] = {{16, 16, 16}, {16, 16, 8}, {16, 32, 4}, {16, 32, 8}, {16, 8, 16}, {16, 8, 32},
                                       {8, 8, 16},   {8, 64, 4},  {16, 64, 4}, {16, 64, 8}, {16, 64, 16}};
  bool known = false;
  for (const auto& shape : kShapes) known = known || (s.m == shape[0] && BitsOf(s.a) == shape[1] && s.k == shape[2]);
  const bool integers = s.a == Format::kU8 || s.a == Format::kS8;
  const bool accumulates = integers                                       ? s.c == Format::kS32
                           : s.a == Format::kF64                          ? s.c == Format::kF64
                           : s.a == Format::kBf16 || s.a == Format::kTf32 ? s.c == Format::kF32
                                                                          : s.c == Format::kF32 || s.c == Format::kF16;
  if (!known || s.n != 8 || BitsOf(s.a) != BitsOf(s.b) || s.d != s.c || !accumulates || (s.saturates && !integers))
    return d.Fail("a shape or types that are not known");
  KILN_RETURN_IF_ERROR(d.Count(4));
  const auto c_registers = static_cast<size_t>(s.c_elements() / s.c_per_register());
  Instruction i;
  KILN_ASSIGN_OR_RETURN(i.list, d.ResultList(d.operand(0), c_registers));
  KILN_RETURN_IF_ERROR(d.SourceList(d.operand(1), static_cast<size_t>(s.registers_of(s.a, s.m))).status());
  KILN_RETURN_IF_ERROR(d.SourceList(d.operand(2), static_cast<size_t>(s.registers_of(s.b, s.n))).status());
  KILN_RETURN_IF_ERROR(d.SourceList(d.operand(3), c_registers).status());
  i.collective = Multiplied;
  i.offset = Number(s);
  return i;
}

// Lane 8 m + r says where row r of matrix m is: 8 elements of 16 bits. Register m of lane l holds elements
// 2 (l % 4) and the next of row l / 4; with kTransposed, of column l / 4.
template <bool kLoad, bool kTransposed>
bool Matrices(Group& group, const Lanes& lanes, const Instruction& i) {
  if (!WholeWarp(group, lanes)) return false;
  const uint32_t* list = group.function->lists.data() + i.list;
  for (uint32_t matrix = 0; matrix < i.count; ++matrix) {
    uint16_t elements[8][8];
    char* places[8];
    for (uint32_t row = 0; row < 8; ++row) {
      Thread& thread = *lanes[8 * matrix + row];
      const uint64_t address = thread.slots[i.at[1]] + static_cast<uint64_t>(i.offset);
      places[row] = group.Locate(thread, i.space, address, 16, kLoad ? Use::kRead : Use::kWrite);
      if (places[row] == nullptr) return false;
      if (kLoad) std::memcpy(elements[row], places[row], 16);
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint64_t& slot = lanes[lane]->slots[list[matrix]];
      const uint32_t row = lane / 4, column = lane % 4 * 2;
      uint16_t& low = kTransposed ? elements[column][row] : elements[row][column];
      uint16_t& high = kTransposed ? elements[column + 1][row] : elements[row][column + 1];
      if (kLoad) {
        slot = uint64_t{high} << 16 | low;
      } else {
        low = static_cast<uint16_t>(slot);
        high = static_cast<uint16_t>(slot >> 16);
      }
    }
    for (uint32_t row = 0; !kLoad && row < 8; ++row) std::memcpy(places[row], elements[row], 16);
  }
  return true;
}

// ldmatrix.sync.aligned.m8n8.x4{.trans}.shared.b16 {…}, [address]
Decoded MatricesOf(FunctionDecoder& d, const std::vector<std::string>& words) {
  const bool load = words[0] == "ldmatrix";
  Instruction i;
  bool transposed = false;
  if (words.size() < 6 || words[1] != "sync" || words[2] != "aligned" || words[3] != "m8n8" || words.back() != "b16")
    return d.Fail("an opcode that is not known");
  i.space = Space::kGeneric;
  i.count = 0;
  for (size_t n = 4; n + 1 < words.size(); ++n) {
    if (words[n] == "x1" || words[n] == "x2" || words[n] == "x4") {
      i.count = static_cast<uint8_t>(words[n][1] - '0');
    } else if (words[n] == "trans") {
      transposed = true;
    } else if (words[n] == "shared" || words[n] == "shared::cta") {
      i.space = Space::kShared;
    } else {
      return d.Fail("an opcode that is not known");
    }
  }
  if (i.count == 0) return d.Fail(".x1, .x2 or .x4");
  KILN_RETURN_IF_ERROR(d.Count(2));
  KILN_ASSIGN_OR_RETURN(const auto address, d.Address(d.operand(load ? 1 : 0)));
  i.at[1] = address.first;
  i.offset = address.second;
  if (load) {
    KILN_ASSIGN_OR_RETURN(i.list, d.ResultList(d.operand(0), i.count));
    i.collective = transposed ? Matrices<true, true> : Matrices<true, false>;
  } else {
    KILN_ASSIGN_OR_RETURN(i.list, d.SourceList(d.operand(1), i.count));
    i.collective = transposed ? Matrices<false, true> : Matrices<false, false>;
  }
  return i;
}

}  // namespace

Decoded DecodeMatrix(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words[0] != "mma" && words[0] != "ldmatrix" && words[0] != "stmatrix") return std::nullopt;
  KILN_ASSIGN_OR_RETURN(std::optional<Instruction> i, words[0] == "mma" ? MmaOf(d, words) : MatricesOf(d, words));
  i->kind = Kind::kWarp;
  i->at[4] = d.Constant(0xffffffff);
  d.SayThatThreadsMeet();
  return i;
}

}  // namespace kiln::testing::ptx
