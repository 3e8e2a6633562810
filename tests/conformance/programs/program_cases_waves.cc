// Products that waves compute together, a WMMA by many items: what each item holds is read from where a table says,
// and the table is made here by the formulas of the vendors' documents.
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/float_bits.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/program_builder.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;

// The number, row-major, of element `i` of item `l`.
using PlaceOf = std::function<int(int l, int i)>;

struct Product {
  int threads, m, n, k;
  DType in, out;
  PlaceOf a, b, c;
};

HostTensor NumbersOf(DType dtype, const std::vector<int>& values) {
  HostTensor tensor{dtype, {static_cast<int64_t>(values.size())}, {}};
  for (const int value : values) {
    const uint64_t bits =
        compiler::IsFloat(dtype) ? FloatToBits(compiler::ToWire(dtype), value) : static_cast<uint64_t>(int64_t{value});
    for (int byte = 0; byte < compiler::ItemSize(dtype); ++byte)
      tensor.bytes.push_back(static_cast<char>(bits >> (8 * byte)));
  }
  return tensor;
}

// Small whole numbers.
std::vector<int> Whole(int n, DType dtype, uint64_t seed) {
  Random random(seed);
  std::vector<int> values;
  const bool negative = !compiler::IsUnsigned(dtype);
  for (int i = 0; i < n; ++i) values.push_back(static_cast<int>(random.In(negative ? -4 : 0, 4)));
  // Where signs and lengths show.
  if (dtype == DType::kInt8) values[0] = -128;
  if (dtype == DType::kUint8) values[0] = 255;
  return values;
}

// Two waves, each with matrices of its own.
ProgramCase CaseOf(const Product& product) {
  const int waves = 2, items = waves * product.threads;
  const int sizes[] = {product.m * product.k, product.k * product.n, product.m * product.n};
  const PlaceOf places[] = {product.a, product.b, product.c};
  std::vector<int32_t> tables[3];
  for (int t = 0; t < 3; ++t) {
    for (int item = 0; item < items; ++item) {
      for (int i = 0; i < sizes[t] / product.threads; ++i)
        tables[t].push_back(item / product.threads * sizes[t] + places[t](item % product.threads, i));
    }
  }
  ProgramBuilder p;
  const DType dtypes[] = {product.in, product.in, product.out};
  Node memory[3], table[3];
  // The sum is slot 0.
  for (uint32_t t = 0; t < 3; ++t) {
    memory[t] = p.Global((t + 1) % 3, dtypes[t], {waves * sizes[t]});
    table[t] = p.Global(3 + t, DType::kInt32, {static_cast<int64_t>(tables[t].size())});
  }
  const Node lane = p.Special("lidx0", items);
  Node fragment[3];
  std::vector<Node> to;
  for (uint32_t t = 0; t < 3; ++t) {
    const int held = sizes[t] / product.threads;
    std::vector<Node> elements;
    for (int i = 0; i < held; ++i) {
      const Node entry = p.At(table[t], {p.Add(p.Mul(lane, p.Int(held)), p.Int(i))});
      const Node place = p.At(memory[t], {p.Load(entry)});
      elements.push_back(p.Load(place));
      if (t == 2) to.push_back(place);
    }
    fragment[t] = p.Do(v1::STACK, elements);
  }
  const Node sum = p.Wmma(fragment[0], fragment[1], fragment[2], product.n, product.m, product.k, product.in,
                          product.out, product.threads);
  for (size_t i = 0; i < to.size(); ++i) p.Store(to[i], p.Lane(sum, static_cast<int64_t>(i)));

  const std::vector<int> a = Whole(waves * sizes[0], product.in, 21), b = Whole(waves * sizes[1], product.in, 22);
  std::vector<int> c = Whole(waves * sizes[2], DType::kInt16, 23);
  ProgramCase test;
  test.name = absl::StrCat("a product by waves of ", product.threads, ", ", product.m, "x", product.n, "x", product.k,
                           " of ", compiler::Name(product.in), " into ", compiler::Name(product.out));
  test.graph = p.Finish("wave");
  test.arguments = {{0, NumbersOf(product.out, c)}, {1, NumbersOf(product.in, a)}, {2, NumbersOf(product.in, b)}};
  for (uint32_t t = 0; t < 3; ++t) test.arguments[3 + t] = Int32s(tables[t]);
  for (int wave = 0; wave < waves; ++wave) {
    for (int i = 0; i < product.m; ++i) {
      for (int j = 0; j < product.n; ++j) {
        for (int l = 0; l < product.k; ++l)
          c[wave * sizes[2] + i * product.n + j] +=
              a[wave * sizes[0] + i * product.k + l] * b[wave * sizes[1] + l * product.n + j];
      }
    }
  }
  test.expected = {{0, NumbersOf(product.out, c)}};
  return test;
}

// PTX ISA, figures of the fragments of mma.m16n8k8, m16n8k16 and m16n8k32: of lane l, "groupID" l / 4 and
// "threadID_in_group" l % 4. A register is of 32 bits.
Product Nvidia16(int k, DType in, DType out) {
  const int each = 4 / compiler::ItemSize(in);
  return {32,
          16,
          8,
          k,
          in,
          out,
          [=](int l, int i) {
            const int reg = i / each, row = reg % 2 == 0 ? l / 4 : l / 4 + 8;
            const int column = l % 4 * each + i % each + (reg < 2 ? 0 : 4 * each);
            return row * k + column;
          },
          [=](int l, int i) {
            const int row = l % 4 * each + i % each + (i < each ? 0 : 4 * each);
            return row * 8 + l / 4;
          },
          [](int l, int i) { return (i < 2 ? l / 4 : l / 4 + 8) * 8 + l % 4 * 2 + i % 2; }};
}

// mma.m8n8k4 of float64.
Product Nvidia8() {
  return {32,
          8,
          8,
          4,
          DType::kFloat64,
          DType::kFloat64,
          [](int l, int) { return l / 4 * 4 + l % 4; },
          [](int l, int) { return l % 4 * 8 + l / 4; },
          [](int l, int i) { return l / 4 * 8 + l % 4 * 2 + i; }};
}

// AMD's: of a wave, a square of `m`; each item has `along` neighbours of a row of A, and of a column of B.
Product Amd(int threads, int m, int k, DType in, DType out) {
  const int along = k * m / threads;
  const PlaceOf c = [=](int l, int i) {
    if (threads == 32) return (l / 16 * 8 + i) * 16 + l % 16;
    if (m == 32) return (i / 4 * 8 + l / 32 * 4 + i % 4) * 32 + l % 32;
    return (in == DType::kFloat64 ? i * 4 + l / 16 : l / 16 * 4 + i) * 16 + l % 16;
  };
  return {threads,
          m,
          m,
          k,
          in,
          out,
          [=](int l, int i) { return l % m * k + l / m * along + i; },
          [=](int l, int i) { return (l / m * along + i) * m + l % m; },
          c};
}

}  // namespace

std::vector<ProgramCase> WaveCases() {
  using enum DType;
  std::vector<ProgramCase> cases;
  for (const Product& product : {Nvidia16(16, kFloat16, kFloat16),
                                 Nvidia16(8, kFloat16, kFloat16),
                                 Nvidia16(16, kBfloat16, kFloat32),
                                 Nvidia16(8, kBfloat16, kFloat32),
                                 Nvidia16(8, kFloat32, kFloat32),
                                 Nvidia16(32, kInt8, kInt32),
                                 Nvidia16(32, kUint8, kInt32),
                                 Nvidia16(32, kFloat8E4m3, kFloat32),
                                 Nvidia16(32, kFloat8E5m2, kFloat32),
                                 Nvidia8(),
                                 Amd(32, 16, 16, kFloat16, kFloat32),
                                 Amd(32, 16, 16, kBfloat16, kFloat32),
                                 Amd(32, 16, 16, kInt8, kInt32),
                                 Amd(32, 16, 16, kUint8, kInt32),
                                 Amd(32, 16, 16, kFloat8E4m3, kFloat32),
                                 Amd(32, 16, 16, kFloat8E5m2, kFloat32),
                                 Amd(64, 16, 16, kFloat16, kFloat32),
                                 Amd(64, 16, 16, kBfloat16, kFloat32),
                                 Amd(64, 32, 8, kFloat16, kFloat32),
                                 Amd(64, 32, 8, kBfloat16, kFloat32),
                                 Amd(64, 16, 16, kInt8, kInt32),
                                 Amd(64, 32, 8, kInt8, kInt32),
                                 Amd(64, 16, 32, kInt8, kInt32),
                                 Amd(64, 32, 16, kInt8, kInt32),
                                 Amd(64, 16, 32, kFloat8E4m3Fnuz, kFloat32),
                                 Amd(64, 32, 16, kFloat8E5m2Fnuz, kFloat32),
                                 Amd(64, 16, 4, kFloat32, kFloat32),
                                 Amd(64, 32, 2, kFloat32, kFloat32),
                                 Amd(64, 16, 4, kFloat64, kFloat64)})
    cases.push_back(CaseOf(product));
  return cases;
}

}  // namespace kiln::testing
