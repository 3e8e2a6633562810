// Older tensor graphs, on both engines: what each spelling gives, and how it is
// refused. Views are compared with their definition.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;
using compiler::InterpResult;

v1::Graph GraphOf(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status() << "\n" << text;
  return *std::move(graph);
}

// 0, 1, 2, ... as int32.
HostTensor Counting(int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  HostTensor tensor{DType::kInt32, {count}, ""};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  return tensor;
}

template <typename T>
std::vector<int64_t> Values(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

std::vector<int64_t> Numbers(const HostTensor& tensor) {
  if (tensor.dtype == DType::kBool) return Values<uint8_t>(tensor.bytes);
  if (tensor.dtype == DType::kInt16) return Values<int16_t>(tensor.bytes);
  EXPECT_EQ(tensor.dtype, DType::kInt32);
  return Values<int32_t>(tensor.bytes);
}

// On both engines, which must agree.
absl::StatusOr<InterpResult> RunBoth(const v1::Graph& graph, const HostTensors& arguments) {
  absl::StatusOr<InterpResult> interpreted = RunInterpreted(graph, arguments);
  if (!interpreted.ok()) return interpreted;
  const auto compiled = CpuEngine().Run(graph, arguments, ExactOptions());
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (compiled.ok()) {
    EXPECT_EQ(CompareOutcomes(*compiled, *interpreted, {}), "");
  }
  return interpreted;
}

struct Row {
  const char* name;
  // Nodes after x: slot 0, int32 (12), which is node 2. The last is the result.
  std::string nodes;
  std::vector<int64_t> values;
  compiler::Shape shape;
};

constexpr char kX[] = "0 CONST [] weakint 12\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=int32\n";

TEST(LegacyTensor, EachSpellingMeansWhatItsCoreOpsDo) {
  const Row rows[] = {
      {"VIEW",
       "3 VIEW [2] views=({shape=(3, 4) stride=(4, 1) offset=0})\n",
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
       {3, 4}},
      {"VIEW transposed",
       "3 VIEW [2] views=({shape=(4, 3) stride=(1, 4) offset=0})\n",
       {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11},
       {4, 3}},
      {"VIEW with a mask",
       "3 VIEW [2] views=({shape=(4, 3) stride=(3, 1) offset=-3 begin=(1, 0) end=(3, 2)})\n",
       {0, 0, 0, 0, 1, 0, 3, 4, 0, 0, 0, 0},
       {4, 3}},
      {"VIEW of a VIEW's VIEW",
       "3 VIEW [2] views=({shape=(3, 4) stride=(4, 1) offset=0}, {shape=(4, 3) stride=(-3, 1) offset=9})\n"
       "4 VIEW [3] views=({shape=(2) stride=(5) offset=1})\n",
       {10, 3},
       {2}},
      {"VIEW of windows",
       "3 VIEW [2] views=({shape=(3, 4) stride=(2, 1) offset=1})\n",
       {1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 8},
       {3, 4}},
      {"VIEW of a computed value",
       "3 ADD [2, 2]\n4 VIEW [3] views=({shape=(2, 2) stride=(0, -6) offset=6})\n",
       {12, 0, 12, 0},
       {2, 2}},
      {"VIEW of nothing", "3 VIEW [2] views=({shape=(2, 0) stride=(1, 1) offset=99})\n", {}, {2, 0}},
      {"VALID",
       "3 VALID [] views=({shape=(2, 3) stride=(9, 1) offset=7 begin=(0, 1) end=(2, 3)})\n",
       {0, 1, 1, 0, 1, 1},
       {2, 3}},
      {"VALID of a VIEW",
       "3 VIEW [] views=({shape=(2, 2) stride=(2, 1) offset=0 begin=(1, 0) end=(2, 2)}, {shape=(4) stride=(-1) "
       "offset=3})\n"
       "4 VALID [3]\n5 CONST [] int32 5\n6 CONST [] int32 0\n7 WHERE [4, 5, 6]\n",
       {5, 5, 0, 0},
       {4}},
      {"CONST with a VIEW(DEVICE)",
       "3 DEVICE [] text=\"CPU\"\n4 VIEW [3] views=({shape=(2, 2) stride=(0, 0) offset=0})\n5 CONST [4] int32 7\n",
       {7, 7, 7, 7},
       {2, 2}},
      {"CONST with a DEVICE", "3 DEVICE [] text=\"CPU\"\n4 CONST [3] int32 7\n", {7}, {}},
      {"LOAD of a VIEW", "3 VIEW [] views=({shape=(3) stride=(4) offset=1})\n4 LOAD [2, 3]\n", {1, 5, 9}, {3}},
      {"RESHAPE by argument", "3 RESHAPE [2] axes=(2, 6)\n", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 6}},
      {"EXPAND by argument",
       "3 RESHAPE [2] axes=(12, 1)\n4 SHRINK [3] axes=(2, 4, 0, 1)\n5 EXPAND [4] axes=(2, 3)\n",
       {2, 2, 2, 3, 3, 3},
       {2, 3}},
      {"PAD by argument", "3 SHRINK [2] axes=(5, 7)\n4 PAD [3] axes=(1, 2)\n", {0, 5, 6, 0, 0}, {5}},
      {"REDUCE_AXIS", "3 RESHAPE [2] axes=(3, 4)\n4 REDUCE_AXIS [3] ADD axes=(1)\n", {6, 22, 38}, {3, 1}},
      {"BUFFER with DEVICE and UNIQUE",
       "3 DEVICE [] text=\"CPU\"\n4 UNIQUE [] index=1\n5 BUFFER [1, 3, 4] slot=0 dtype=int32\n6 ADD [2, 5]\n",
       {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22},
       {12}},
      {"BUFFER_VIEW", "3 BUFFER_VIEW [2] axes=(3, 4)\n", {4, 5, 6}, {3}},
      {"BUFFER_VIEW as another dtype", "3 BUFFER_VIEW : int16 [2] axes=(4, 2)\n", {1, 0, 2, 0}, {4}},
      {"COPY with a DEVICE", "3 DEVICE [] text=\"CPU\"\n4 SHRINK [2] axes=(2, 4)\n5 COPY [4, 3]\n", {2, 3}, {2}},
      {"COPY to a DEVICE", "3 DEVICE [] text=\"CPU\"\n4 SHRINK [2] axes=(2, 4)\n5 COPY [3, 4]\n", {2, 3}, {2}},
      {"EMPTY", "3 CONST [] weakint 2\n4 EMPTY : int32 [3]\n", {0, 0}, {2}},
      {"EMPTY of one", "3 EMPTY : int32 []\n", {0}, {}},
      {"CONTIGUOUS and DETACH",
       "3 CONTIGUOUS [2]\n4 DETACH [3]\n5 CONTIGUOUS_BACKWARD [4]\n6 SHRINK [5] axes=(0, 2)\n",
       {0, 1},
       {2}},
  };
  for (const Row& row : rows) {
    const int last = static_cast<int>(std::count(row.nodes.begin(), row.nodes.end(), '\n')) + 2;
    const v1::Graph graph = GraphOf(absl::StrCat(kX, row.nodes, last + 1, " TUPLE [", last, "]\n"));
    const auto run = RunBoth(graph, {{0, Counting(12)}, {1, Counting(12)}});
    ASSERT_TRUE(run.ok()) << row.name << ": " << run.status();
    EXPECT_EQ(Numbers(run->results[0]), row.values) << row.name;
    EXPECT_EQ(run->results[0].shape, row.shape) << row.name;
  }
}

TEST(LegacyTensor, StoresThroughAView) {
  const v1::Graph graph = GraphOf(absl::StrCat(kX,
                                               "3 VIEW [] views=({shape=(2, 3) stride=(-1, 4) offset=1})\n"
                                               "4 VIEW [] views=({shape=(2, 3) stride=(3, 1) offset=6})\n"
                                               "5 LOAD [2, 4]\n6 STORE [2, 3, 5]\n7 SINK [6]\n"));
  const auto run = RunBoth(graph, {{0, Counting(12)}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Numbers(run->written.at(0)), (std::vector<int64_t>{9, 6, 2, 3, 10, 7, 6, 7, 11, 8, 10, 11}));
}

TEST(LegacyTensor, ALoadBehindAStoreSeesIt) {
  const v1::Graph graph = GraphOf(absl::StrCat(kX,
                                               "3 VIEW [] views=({shape=(12) stride=(1) offset=0})\n4 ADD [2, 2]\n"
                                               "5 STORE [2, 3, 4]\n6 VIEW [] views=({shape=(2) stride=(5) offset=1})\n"
                                               "7 LOAD [2, 6, 5]\n8 TUPLE [7]\n"));
  const auto run = RunBoth(graph, {{0, Counting(12)}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Numbers(run->results[0]), (std::vector<int64_t>{2, 12}));
}

TEST(LegacyTensor, AKernelIsACall) {
  const v1::Graph graph =
      GraphOf(absl::StrCat(kX, "3 ADD [2, 2]\n4 STORE [2, 3]\n5 SINK [4]\n6 KERNEL [5, 2]\n7 SINK [6]\n"));
  const auto run = RunBoth(graph, {{0, Counting(12)}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Numbers(run->written.at(0)), (std::vector<int64_t>{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}));
}

struct Fault {
  const char* nodes;
  v1::ErrorCode code;
  uint32_t node;
  const char* text;
};

TEST(LegacyTensor, RefusesWhatIsNone) {
  const Fault faults[] = {
      {"3 VIEW [2] views=({shape=(3, 4) stride=(4) offset=0})\n", v1::BAD_ARGUMENT, 3, "2 axes with 1 strides"},
      {"3 VIEW [2] views=({shape=(3, 5) stride=(4, 1) offset=0})\n", v1::BAD_ARGUMENT, 3, "outside of the 12 elements"},
      {"3 VIEW [2] views=({shape=(3) stride=(1) offset=-1})\n", v1::BAD_ARGUMENT, 3, "outside"},
      {"3 VIEW [2] views=({shape=(2) stride=(-9223372036854775808) offset=0})\n", v1::BAD_ARGUMENT, 3, "outside"},
      {"3 VIEW [2] views=({shape=(3) stride=(1) offset=0 begin=(2) end=(4)})\n", v1::BAD_ARGUMENT, 3, "mask [2, 4)"},
      {"3 VIEW [2] views=({shape=(3) stride=(1) offset=0 begin=(2)})\n", v1::BAD_ARGUMENT, 3, "mask"},
      {"3 VIEW [2] views=({shape=(9223372036854775807, 4) stride=(0, 0) offset=0})\n", v1::SIZE_OVERFLOW, 3,
       "more than"},
      {"3 VIEW [2, 2] views=({shape=(3) stride=(1) offset=0})\n", v1::WRONG_SOURCE_COUNT, 3, "one value"},
      {"3 VIEW [2]\n", v1::BAD_ARGUMENT, 3, "no views"},
      {"3 VALID [2]\n", v1::BAD_ARGUMENT, 3, "VALID"},
      {"3 CONST [2] int32 1\n", v1::WRONG_SOURCE_COUNT, 3, "CONST"},
      {"3 VIEW [] views=({shape=(3) stride=(4) offset=1})\n4 LOAD [2, 3, 2, 2]\n", v1::WRONG_SOURCE_COUNT, 4, "LOAD"},
      {"3 VIEW [] views=({shape=(3) stride=(4) offset=1})\n4 STORE [2, 3]\n", v1::WRONG_SOURCE_COUNT, 4, "STORE"},
      {"3 VIEW [] views=({shape=(3) stride=(4) offset=1})\n4 ADD [2, 3]\n", v1::DTYPE_MISMATCH, 4, "ADD"},
      {"3 RESHAPE [2, 1] axes=(12)\n", v1::WRONG_SOURCE_COUNT, 3, "RESHAPE"},
      {"3 RESHAPE [2] axes=(5)\n", v1::SHAPE_MISMATCH, 3, "elements"},
      {"3 PAD [2] axes=(1)\n", v1::BAD_ARGUMENT, 3, "wants 2"},
      {"3 SHRINK [2] axes=(5, 3)\n", v1::BAD_ARGUMENT, 3, "from 5 to 3"},
      {"3 SHRINK [2] axes=(5, 13)\n", v1::SHAPE_MISMATCH, 3, "inside"},
      {"3 REDUCE_AXIS [2]\n", v1::BAD_ARGUMENT, 3, "REDUCE_AXIS"},
      {"3 REDUCE_AXIS [2] ADD axes=(1)\n", v1::BAD_ARGUMENT, 3, "axis 1"},
      {"3 UNIQUE []\n4 BUFFER [1, 3] slot=0 dtype=int32\n", v1::BAD_ARGUMENT, 4, "UNIQUE wants an index"},
      {"3 UNIQUE [] index=65536\n4 BUFFER [1, 3] slot=0 dtype=int32\n", v1::BAD_ARGUMENT, 4, "65536"},
      {"3 UNIQUE [] index=1\n4 BUFFER [3] slot=0 dtype=int32\n", v1::WRONG_SOURCE_COUNT, 4, "shape"},
      {"3 BUFFER_VIEW [2] axes=(3, 10)\n", v1::SHAPE_MISMATCH, 3, "inside"},
      {"3 BUFFER_VIEW [2]\n", v1::BAD_ARGUMENT, 3, "size, offset"},
      {"3 DEVICE [] text=\"CPU\"\n4 COPY [3]\n", v1::WRONG_SOURCE_COUNT, 4, "COPY"},
      {"3 EMPTY []\n", v1::BAD_ARGUMENT, 3, "dtype"},
      {"3 DEVICE [2] text=\"CPU\"\n", v1::WRONG_SOURCE_COUNT, 3, "DEVICE"},
  };
  for (const Fault& fault : faults) {
    const std::string nodes = fault.nodes;
    const int last = static_cast<int>(std::count(nodes.begin(), nodes.end(), '\n')) + 2;
    const v1::Graph graph = GraphOf(absl::StrCat(kX, nodes, last + 1, " TUPLE [", last, "]\n"));
    const auto run = RunInterpreted(graph, {{0, Counting(12)}});
    ASSERT_FALSE(run.ok()) << nodes;
    const v1::ErrorDetail detail = DetailOf(run.status()).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), fault.code) << nodes << run.status();
    EXPECT_EQ(detail.node(), fault.node) << nodes << run.status();
    EXPECT_NE(run.status().message().find(fault.text), absl::string_view::npos) << nodes << run.status();
  }
}

// One view and what it gives of `values`, by its definition.
std::vector<int64_t> Seen(const v1::ViewArg::View& view, const std::vector<int64_t>& values) {
  std::vector<int64_t> seen, at(view.shape_size(), 0);
  int64_t count = 1;
  for (int64_t size : view.shape()) count *= size;
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n, place = view.offset();
    bool inside = true;
    for (int i = view.shape_size(); i-- > 0;) {
      const int64_t index = rest % view.shape(i);
      rest /= view.shape(i);
      place += index * view.stride(i);
      if (view.mask_begin_size() > 0) inside &= index >= view.mask_begin(i) && index < view.mask_end(i);
    }
    seen.push_back(inside ? values.at(static_cast<size_t>(place)) : 0);
  }
  return seen;
}

// Random, but in bounds of `count` elements wherever its mask is.
v1::ViewArg::View RandomView(Random& random, int64_t count) {
  while (true) {
    v1::ViewArg::View view;
    const auto rank = static_cast<int>(random.Below(4));
    const bool masked = rank > 0 && random.OneIn(3);
    int64_t low = 0, high = 0, begin_at = 0, elements = 1;
    for (int i = 0; i < rank; ++i) {
      const int64_t size = random.In(1, 5);
      const int64_t stride = random.OneIn(5) ? 0 : random.In(-8, 12);
      const int64_t begin = masked ? random.In(0, size - 1) : 0, end = masked ? random.In(begin + 1, size) : size;
      view.add_shape(size);
      view.add_stride(stride);
      if (masked) {
        view.add_mask_begin(begin);
        view.add_mask_end(end);
      }
      begin_at += begin * stride;
      const int64_t reach = (end - begin - 1) * stride;
      (reach < 0 ? low : high) += reach;
      elements *= size;
    }
    if (high - low >= count || elements > 200) continue;
    view.set_offset(random.In(-low, count - 1 - high) - begin_at);
    return view;
  }
}

TEST(LegacyTensor, RandomViewsGiveWhatTheirStridesSay) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    v1::Graph graph = GraphOf(absl::StrCat(kX, "3 VIEW [2]\n4 TUPLE [3]\n"));
    std::vector<int64_t> expected = Numbers(Counting(12));
    v1::ViewArg& views = *graph.mutable_nodes(3)->mutable_view();
    for (uint64_t n = 1 + random.Below(3); n > 0; --n) {
      *views.add_view() = RandomView(random, static_cast<int64_t>(expected.size()));
      expected = Seen(views.view(views.view_size() - 1), expected);
    }
    // Both engines on some; the interpreter alone is quick.
    const HostTensors arguments = {{0, Counting(12)}};
    const auto run = seed % 50 == 0 ? RunBoth(graph, arguments) : RunInterpreted(graph, arguments);
    ASSERT_TRUE(run.ok()) << "seed " << seed << ": " << run.status() << "\n" << PrintGraph(graph);
    ASSERT_EQ(Numbers(run->results[0]), expected) << "seed " << seed << "\n" << PrintGraph(graph);
  }
}

}  // namespace
}  // namespace kiln::testing
