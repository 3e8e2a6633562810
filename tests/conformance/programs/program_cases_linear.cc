// Programs as a frontend of today sends them: work groups that share memory,
// vectors, atomics, matrix units.
#include "absl/strings/str_cat.h"
#include "base/float_bits.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/program_builder.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using compiler::DType;

std::vector<float> Small(int n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<float>(random.In(-8, 8)) / 4);
  return values;
}

std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b, std::vector<float> c, int m, int n,
                           int k) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return c;
}

// C = A B of 8x8, by 4 groups of 4x4 items, over tiles of 4 in shared memory.
ProgramCase TiledMatmul() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kFloat32, {64}), a = p.Global(1, DType::kFloat32, {64}),
             b = p.Global(2, DType::kFloat32, {8, 8});
  const Node gx = p.Special("gidx0", 2), gy = p.Special("gidx1", 2);
  const Node lx = p.Special("lidx0", 4), ly = p.Special("lidx1", 4);
  const Node four = p.Int(4), eight = p.Int(8), zero = p.Int(0);
  const Node tile_a = p.Local(0, DType::kFloat32, {16}), tile_b = p.Local(1, DType::kFloat32, {4, 4});
  const Node acc = p.Reg(0, DType::kFloat32, {1});
  const Node row = p.Add(p.Mul(gy, four), ly), column = p.Add(p.Mul(gx, four), lx);
  const Node started = p.Do(v1::AFTER, {acc, p.Store(p.At(acc, {zero}), p.Float(0))});
  const Node tile = p.Loop(2, 0);
  const Node from_a = p.Add(p.Mul(row, eight), p.Add(p.Mul(tile, four), lx));
  const Node put_a = p.Store(p.At(tile_a, {p.Add(p.Mul(ly, four), lx)}), p.Load(p.At(a, {from_a})));
  const Node put_b = p.Store(p.At(tile_b, {ly, lx}), p.Load(p.At(b, {p.Add(p.Mul(tile, four), ly), column})));
  const Node filled = p.Do(v1::BARRIER, {put_a, put_b});
  const Node ready_a = p.Do(v1::AFTER, {tile_a, filled}), ready_b = p.Do(v1::AFTER, {tile_b, filled});
  const Node k = p.Loop(4, 1);
  const Node acc_in_loop = p.Do(v1::AFTER, {started, k});
  const Node product = p.Mul(p.Load(p.At(ready_a, {p.Add(p.Mul(ly, four), k)})), p.Load(p.At(ready_b, {k, lx})));
  p.Store(p.At(acc_in_loop, {zero}), p.Add(p.Load(p.At(acc_in_loop, {zero})), product));
  p.End(k);
  p.Barrier();
  p.End(tile);
  p.Store(p.At(out, {p.Add(p.Mul(row, eight), column)}), p.Load(p.At(acc, {zero})));
  const std::vector<float> x = Small(64, 1), y = Small(64, 2), none(64, 0);
  ProgramCase test{"a matrix product in tiles of shared memory",
                   p.Finish("tiled"),
                   {{0, Float32s(none)}, {1, Float32s(x)}, {2, Float32s(y)}},
                   {{0, Float32s(Product(x, y, none, 8, 8, 8))}}};
  test.arguments[2].shape = {8, 8};
  return test;
}

// Sums of 64 by halving strides, one for each of 3 groups.
ProgramCase TreeReduction() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kInt32, {3}), in = p.Global(1, DType::kInt32, {192});
  const Node g = p.Special("gidx0", 3), l = p.Special("lidx0", 64);
  const Node temp = p.Local(0, DType::kInt32, {64});
  p.Store(p.At(temp, {l}), p.Load(p.At(in, {p.Add(p.Mul(g, p.Int(64)), l)})));
  p.Barrier();
  const Node step = p.Loop(6, 0);
  const Node stride = p.Do(v1::SHR, {p.Int(32), step});
  const Node half = p.If(p.Lt(l, stride));
  const Node mine = p.At(temp, {l});
  p.Store(mine, p.Add(p.Load(mine), p.Load(p.At(temp, {p.Add(l, stride)}))));
  p.EndIf(half);
  p.Barrier();
  p.End(step);
  const Node first = p.If(p.Lt(l, p.Int(1)));
  p.Store(p.At(out, {g}), p.Load(p.At(temp, {p.Int(0)})));
  p.EndIf(first);
  std::vector<int32_t> values, sums(3, 0);
  for (int i = 0; i < 192; ++i) {
    values.push_back(i * i % 97 - 40);
    sums[i / 64] += values.back();
  }
  return {"a tree of sums in shared memory",
          p.Finish("tree"),
          {{0, Int32s({0, 0, 0})}, {1, Int32s(values)}},
          {{0, Int32s(sums)}}};
}

// More than NVIDIA's code may declare by itself (compiler/target/gpu/launch.h).
ProgramCase LargeSharedMemory() {
  constexpr int kItems = 256, kRows = 56;
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kInt32, {kItems}), in = p.Global(1, DType::kInt32, {kItems});
  const Node l = p.Special("lidx0", kItems);
  const Node temp = p.Local(0, DType::kInt32, {kItems * kRows});
  const Node row = p.Loop(kRows, 0);
  p.Store(p.At(temp, {p.Add(p.Mul(row, p.Int(kItems)), l)}), p.Add(p.Load(p.At(in, {l})), row));
  p.End(row);
  p.Barrier();
  p.Store(p.At(out, {l}), p.Load(p.At(temp, {p.Add(p.Int(kItems * kRows - 1), p.Mul(l, p.Int(-1)))})));
  std::vector<int32_t> values, want;
  for (int i = 0; i < kItems; ++i) values.push_back(i * i % 101);
  for (int i = 0; i < kItems; ++i) want.push_back(values[static_cast<size_t>(kItems - 1 - i)] + kRows - 1);
  return {"56 KiB of shared memory",
          p.Finish("large"),
          {{0, Int32s(std::vector<int32_t>(kItems, 0))}, {1, Int32s(values)}},
          {{0, Int32s(want)}}};
}

ProgramCase VectorAdd() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kFloat32, {32}), a = p.Global(1, DType::kFloat32, {32}),
             b = p.Global(2, DType::kFloat32, {32});
  const Node at = p.Mul(p.Special("gidx0", 8), p.Int(4));
  const Node x = p.Load(p.Neighbours(a, at, 4)), y = p.Load(p.Neighbours(b, at, 4));
  std::vector<Node> sums;
  for (int i = 0; i < 4; ++i) sums.push_back(p.Add(p.Lane(x, i), p.Lane(y, i)));
  const Node sum = p.Do(v1::STACK, sums);
  p.Store(p.Neighbours(out, at, 4), sum);
  const std::vector<float> u = Small(32, 3), v = Small(32, 4);
  std::vector<float> want;
  for (int i = 0; i < 32; ++i) want.push_back(u[i] + v[i]);
  return {"four lanes at a time",
          p.Finish("float4"),
          {{0, Float32s(std::vector<float>(32, 0))}, {1, Float32s(u)}, {2, Float32s(v)}},
          {{0, Float32s(want)}}};
}

// The last vector hangs over the end: each lane for itself is inside or not.
ProgramCase VectorOverTheEnd() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kInt32, {10}), in = p.Global(1, DType::kInt32, {10});
  const Node at = p.Mul(p.Special("lidx0", 3), p.Int(4));
  const Node x = p.Load(p.Neighbours(in, at, 4));
  const Node small = p.Do(v1::CMPLT, {x, p.Int(5)});
  p.Store(p.Neighbours(out, at, 4), p.Do(v1::WHERE, {small, p.Int(-1), p.Mul(x, x)}));
  std::vector<int32_t> values, want;
  for (int i = 0; i < 10; ++i) {
    values.push_back(i);
    want.push_back(i < 5 ? -1 : i * i);
  }
  return {"a vector that hangs over the end",
          p.Finish("tail"),
          {{0, Int32s(std::vector<int32_t>(10, 7))}, {1, Int32s(values)}},
          {{0, Int32s(want)}}};
}

// 8x8 through shared memory whose rows are 9 apart.
ProgramCase Transposition() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kInt32, {64}), in = p.Global(1, DType::kInt32, {64});
  const Node x = p.Special("lidx0", 8), y = p.Special("lidx1", 8), eight = p.Int(8), nine = p.Int(9);
  const Node tile = p.Local(0, DType::kInt32, {72});
  p.Store(p.At(tile, {p.Add(p.Mul(y, nine), x)}), p.Load(p.At(in, {p.Add(p.Mul(y, eight), x)})));
  p.Barrier();
  p.Store(p.At(out, {p.Add(p.Mul(y, eight), x)}), p.Load(p.At(tile, {p.Add(p.Mul(x, nine), y)})));
  std::vector<int32_t> values, want(64);
  for (int i = 0; i < 64; ++i) {
    values.push_back(i * 3);
    want[i % 8 * 8 + i / 8] = i * 3;
  }
  return {"a transposition through shared memory",
          p.Finish("transpose"),
          {{0, Int32s(std::vector<int32_t>(64, 0))}, {1, Int32s(values)}},
          {{0, Int32s(want)}}};
}

ProgramCase Histogram() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kInt32, {8}), in = p.Global(1, DType::kInt32, {128});
  const Node at = p.Add(p.Mul(p.Special("gidx0", 4), p.Int(32)), p.Special("lidx0", 32));
  const Node value = p.Load(p.At(in, {at}));
  p.Do(v1::ATOMICADD, {p.At(out, {value}), p.Int(1)});
  std::vector<int32_t> values, want(8, 0);
  for (int i = 0; i < 128; ++i) {
    values.push_back(i * 7 % 11 - 1);  // some are in no bin
    if (values.back() >= 0 && values.back() < 8) ++want[values.back()];
  }
  return {"a histogram by ATOMICADD",
          p.Finish("histogram"),
          {{0, Int32s(std::vector<int32_t>(8, 0))}, {1, Int32s(values)}},
          {{0, Int32s(want)}}};
}

// Every item has its own product of 2x3 and 3x4.
ProgramCase WmmaByOne() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kFloat32, {16}), a = p.Global(1, DType::kFloat32, {12}),
             b = p.Global(2, DType::kFloat32, {24});
  const Node l = p.Special("lidx0", 2);
  const Node x = p.Load(p.Neighbours(a, p.Mul(l, p.Int(6)), 6)), y = p.Load(p.Neighbours(b, p.Mul(l, p.Int(12)), 12));
  const Node to = p.Neighbours(out, p.Mul(l, p.Int(8)), 8);
  p.Store(to, p.Wmma(x, y, p.Load(to), 4, 2, 3, DType::kFloat32, DType::kFloat32, 1));
  const std::vector<float> u = Small(12, 5), v = Small(24, 6), w = Small(16, 7);
  std::vector<float> want;
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> part =
        Product({u.begin() + i * 6, u.begin() + i * 6 + 6}, {v.begin() + i * 12, v.begin() + i * 12 + 12},
                {w.begin() + i * 8, w.begin() + i * 8 + 8}, 2, 4, 3);
    want.insert(want.end(), part.begin(), part.end());
  }
  return {"WMMA by one item",
          p.Finish("wmma1"),
          {{0, Float32s(w)}, {1, Float32s(u)}, {2, Float32s(v)}},
          {{0, Float32s(want)}}};
}

compiler::HostTensor Halfs(const std::vector<float>& values) {
  compiler::HostTensor tensor{DType::kFloat16, {static_cast<int64_t>(values.size())}, {}};
  for (float value : values) {
    const uint64_t bits = FloatToBits(v1::FLOAT16, value);
    tensor.bytes.push_back(static_cast<char>(bits & 255));
    tensor.bytes.push_back(static_cast<char>(bits >> 8));
  }
  return tensor;
}

// 16x8 = 16xk times kx8 by the 32 items of a group, with the fragments as the PTX
// manual draws them for mma.m16n8k16 and m16n8k8.
ProgramCase WmmaByThirtyTwo(int k) {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kFloat32, {128}), a = p.Global(1, DType::kFloat16, {16 * k}),
             b = p.Global(2, DType::kFloat16, {8 * k});
  const Node lane = p.Special("lidx0", 32);
  const Node quad = p.Do(v1::CDIV, {lane, p.Int(4)});
  const Node pair = p.Mul(p.Do(v1::CMOD, {lane, p.Int(4)}), p.Int(2));
  const auto place = [&](Node row, int down, Node column, int right, int width) {
    return p.Add(p.Mul(p.Add(row, p.Int(down)), p.Int(width)), p.Add(column, p.Int(right)));
  };
  const int rows_a[] = {0, 0, 8, 8, 0, 0, 8, 8}, columns_a[] = {0, 1, 0, 1, 8, 9, 8, 9};
  const int rows_b[] = {0, 1, 8, 9}, rows_c[] = {0, 0, 8, 8}, columns_c[] = {0, 1, 0, 1};
  std::vector<Node> xs, ys, zs, to;
  for (int i = 0; i < k / 2; ++i) xs.push_back(p.Load(p.At(a, {place(quad, rows_a[i], pair, columns_a[i], k)})));
  for (int i = 0; i < k / 4; ++i) ys.push_back(p.Load(p.At(b, {place(pair, rows_b[i], quad, 0, 8)})));
  for (int i = 0; i < 4; ++i) {
    to.push_back(p.At(out, {place(quad, rows_c[i], pair, columns_c[i], 8)}));
    zs.push_back(p.Load(to.back()));
  }
  const Node x = p.Do(v1::STACK, xs), y = p.Do(v1::STACK, ys), z = p.Do(v1::STACK, zs);
  const Node d = p.Wmma(x, y, z, 8, 16, k, DType::kFloat16, DType::kFloat32, 32);
  for (int i = 0; i < 4; ++i) p.Store(to[i], p.Lane(d, i));
  const std::vector<float> u = Small(16 * k, 8), v = Small(8 * k, 9), w = Small(128, 10);
  return {absl::StrCat("WMMA by 32 items, k ", k),
          p.Finish("wmma32"),
          {{0, Float32s(w)}, {1, Halfs(u)}, {2, Halfs(v)}},
          {{0, Float32s(Product(u, v, w, 16, 8, k))}}};
}

// Running sums: each item adds what is 1, 2, 4, … before it.
ProgramCase Scan() {
  ProgramBuilder p;
  const Node data = p.Global(0, DType::kInt32, {16});
  const Node l = p.Special("lidx0", 16);
  const Node temp = p.Local(0, DType::kInt32, {16});
  const Node mine = p.At(temp, {l});
  p.Store(mine, p.Load(p.At(data, {l})));
  p.Barrier();
  const Node step = p.Loop(4, 0);
  const Node before = p.Add(l, p.Mul(p.Do(v1::SHL, {p.Int(1), step}), p.Int(-1)));
  // A place before the beginning holds 0.
  const Node sum = p.Add(p.Load(mine), p.Load(p.At(temp, {before})));
  p.Barrier();
  p.Store(mine, sum);
  p.Barrier();
  p.End(step);
  p.Store(p.At(data, {l}), p.Load(mine));
  std::vector<int32_t> values, want;
  for (int i = 0; i < 16; ++i) {
    values.push_back(i * 5 % 7);
    want.push_back(values.back() + (i == 0 ? 0 : want.back()));
  }
  return {"running sums in shared memory", p.Finish("scan"), {{0, Int32s(values)}}, {{0, Int32s(want)}}};
}

// Rows of different lengths: the bound of a loop is loaded, and differs by item.
ProgramCase RaggedRows() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kInt32, {4}), ends = p.Global(1, DType::kInt32, {5}),
             values = p.Global(2, DType::kInt32, {9});
  const Node l = p.Special("lidx0", 4), zero = p.Int(0);
  const Node from = p.Load(p.At(ends, {l})), to = p.Load(p.At(ends, {p.Add(l, p.Int(1))}));
  const Node acc = p.At(p.Reg(0, DType::kInt32, {1}), {zero});
  const Node i = p.Range(p.Add(to, p.Mul(from, p.Int(-1))), 0);
  p.Store(acc, p.Add(p.Load(acc), p.Load(p.At(values, {p.Add(from, i)}))));
  p.End(i);
  p.Store(p.At(out, {l}), p.Load(acc));
  return {"loops whose bounds are loaded",
          p.Finish("ragged"),
          {{0, Int32s({9, 9, 9, 9})}, {1, Int32s({0, 2, 2, 5, 9})}, {2, Int32s({1, 2, 3, 4, 5, 6, 7, 8, 9})}},
          {{0, Int32s({3, 0, 12, 30})}}};
}

// As tinygrad's lowering orders loops: the inner waits for the outer, the last for the one that has ended.
ProgramCase RangesThatWait() {
  return {"RANGEs that wait for others",
          FlatList("0 CONST [] weakint 3\n"
                   "1 PARAM [0] slot=0 dtype=int32\n"
                   "2 CONST [] int32 1\n"
                   "3 CONST [] weakint 4\n"
                   "4 RANGE [0] range=(0)\n"
                   "5 CONST [] weakint 0\n"
                   "6 INDEX [1, 5]\n"
                   "7 LOAD [6]\n"
                   "8 ADD [7, 2]\n"
                   "9 STORE [6, 8]\n"
                   "10 RANGE [3, 4] range=(1)\n"
                   "11 CONST [] weakint 1\n"
                   "12 INDEX [1, 11]\n"
                   "13 LOAD [12]\n"
                   "14 ADD [13, 2]\n"
                   "15 STORE [12, 14]\n"
                   "16 END [15, 10]\n"
                   "17 END [16, 4]\n"
                   "18 CONST [] weakint 2\n"
                   "19 RANGE [3, 17] range=(2)\n"
                   "20 INDEX [1, 18]\n"
                   "21 LOAD [20]\n"
                   "22 LOAD [12]\n"
                   "23 ADD [21, 22]\n"
                   "24 STORE [20, 23]\n"
                   "25 END [24, 19]\n"),
          {{0, Int32s({0, 0, 0})}},
          {{0, Int32s({3, 12, 48})}}};
}

}  // namespace

std::vector<ProgramCase> LinearCases() {
  return {TiledMatmul(),   TreeReduction(), LargeSharedMemory(), VectorAdd(),         VectorOverTheEnd(),
          Transposition(), Histogram(),     WmmaByOne(),         WmmaByThirtyTwo(16), WmmaByThirtyTwo(8),
          Scan(),          RaggedRows(),    RangesThatWait()};
}

}  // namespace kiln::testing
