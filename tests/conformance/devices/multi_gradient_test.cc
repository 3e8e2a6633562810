// Gradients of programs on four devices are those of the same program on one, and lie as
// their parameters do.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/gradient/gradient.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/multi_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;

constexpr int kDevices = 4;
constexpr char kFour[] = R"(("D0", "D1", "D2", "D3"))";

// x: slot 0, (8, 4), where DEVICES says; w: slot 1, (8, 4), likewise; z: slot 2, (8, 4),
// on the request's device. All float32.
constexpr char kHead[] = R"(0 CONST [] weakint 8
1 CONST [] weakint 4
2 STACK [0, 1]
3 PARAM [2] slot=0 dtype=float32 device=DEVICES
4 PARAM [2] slot=1 dtype=float32 device=DEVICES
5 PARAM [2] slot=2 dtype=float32
)";

v1::Graph GraphOn(const std::string& nodes, const std::string& devices) {
  const auto graph = ParseGraph(absl::StrReplaceAll(absl::StrCat(kHead, nodes), {{"DEVICES", devices}}));
  EXPECT_TRUE(graph.ok()) << graph.status() << nodes;
  return graph.ok() ? *graph : v1::Graph();
}

// Small whole numbers, whose sums are exact in any order.
HostTensor Floats(std::vector<int64_t> shape, int seed) {
  HostTensor tensor;
  tensor.dtype = DType::kFloat32;
  int64_t count = 1;
  for (int64_t size : shape) count *= size, tensor.shape.push_back(size);
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<float>((i * 7 + seed * 5) % 9 - 4);
    tensor.bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return tensor;
}

absl::StatusOr<v1::Graph> GradientOf(const v1::Graph& graph, const std::vector<uint32_t>& slots, bool cotangent) {
  v1::GradientRequest request;
  *request.mutable_graph() = graph;
  for (uint32_t slot : slots) request.add_wrt_slot(slot);
  request.set_include_results(true);
  if (cotangent) request.set_cotangent_slot(9);
  KILN_ASSIGN_OR_RETURN(v1::GradientResponse response, compiler::Gradient(request, compiler::Limits()));
  return std::move(*response.mutable_graph());
}

// One (8, 4) result, of which the gradient is asked with a cotangent.
struct Row {
  const char* what;
  const char* nodes;
};

constexpr Row kRows[] = {
    {"elementwise", "6 MUL [3, 4]\n7 MUL [6, 3]\n8 TUPLE [7]\n"},
    {"the sum over the devices, met again", "6 REDUCE [3] ADD axes=(0)\n7 MUL [4, 6]\n8 TUPLE [7]\n"},
    {"the greatest over the devices", "6 REDUCE [3] MAX axes=(0)\n7 MUL [4, 6]\n8 MUL [7, 3]\n9 TUPLE [8]\n"},
    {"a product over the devices", "6 REDUCE [3] MUL axes=(0)\n7 MUL [4, 6]\n8 TUPLE [7]\n"},
    {"a product beside the split", "6 REDUCE [3] MUL axes=(1)\n7 MUL [4, 6]\n8 TUPLE [7]\n"},
    {"copied to one device", "6 COPY [3] load device=(\"D1\")\n7 MUL [6, 6]\n8 TUPLE [7]\n"},
    {"there and back",
     "6 COPY [3] load device=(\"D1\")\n7 MUL [6, 6]\n8 COPY [7] load device=DEVICES\n"
     "9 MUL [8, 4]\n10 TUPLE [9]\n"},
    {"from the request's device", "6 COPY [5] load device=DEVICES\n7 MUL [6, 3]\n8 MUL [7, 6]\n9 TUPLE [8]\n"},
    {"met without a COPY", "6 MUL [5, 3]\n7 TUPLE [6]\n"},
    {"split along the other axis",
     "6 PERMUTE [5] axes=(1, 0)\n7 COPY [6] load device=DEVICES\n8 PERMUTE [7] axes=(1, 0)\n9 MUL [8, 8]\n"
     "10 TUPLE [9]\n"},
    {"moved from axis to axis",
     "6 MUL [3, 4]\n7 PERMUTE [6] axes=(1, 0)\n8 COPY [7] load device=DEVICES\n9 PERMUTE [8] axes=(1, 0)\n"
     "10 MUL [9, 9]\n11 TUPLE [10]\n"},
    {"shapes",
     "6 RESHAPE [3] axes=(8, 2, 2)\n7 FLIP [6] flip=(0, 1, 0)\n8 MUL [7, 7]\n9 RESHAPE [8] axes=(8, 4)\n"
     "10 PAD [9] axes=(0, 0, 1, 2)\n11 SHRINK [10] axes=(0, 8, 1, 5)\n12 MUL [11, 4]\n13 TUPLE [12]\n"},
    {"made contiguous", "6 MUL [3, 4]\n7 CONTIGUOUS [6]\n8 MUL [7, 3]\n9 TUPLE [8]\n"},
    {"a row picked",
     "6 CONST [] int32 2\n7 PERMUTE [3] axes=(1, 0)\n8 INDEX [7, 6]\n9 RESHAPE [8] axes=(8, 1)\n"
     "10 MUL [4, 9]\n11 TUPLE [10]\n"},
    {"stacked and summed",
     "6 STACK [3, 4]\n7 MUL [6, 6]\n8 REDUCE [7] ADD axes=(0)\n9 RESHAPE [8] axes=(8, 4)\n"
     "10 TUPLE [9]\n"},
    {"whole, then reshaped across the split",
     "6 REDUCE [3] ADD axes=(0)\n7 RESHAPE [6] axes=(2, 2)\n8 MUL [7, 7]\n9 RESHAPE [8] axes=(1, 4)\n10 MUL [9, 4]\n"
     "11 TUPLE [10]\n"},
};

TEST(MultiGradient, FourDevicesGiveWhatOneGives) {
  for (const Row& row : kRows) {
    const HostTensors arguments = {
        {0, Floats({8, 4}, 1)}, {1, Floats({8, 4}, 2)}, {2, Floats({8, 4}, 3)}, {9, Floats({8, 4}, 4)}};
    const std::string text = row.nodes;
    std::vector<uint32_t> slots;
    for (const auto& [slot, node] : std::vector<std::pair<uint32_t, std::string>>{{0, "3"}, {1, "4"}, {2, "5"}}) {
      if (text.find("[" + node) != std::string::npos || text.find(", " + node + "]") != std::string::npos)
        slots.push_back(slot);
    }
    const auto one = GradientOf(GraphOn(row.nodes, R"(("D0"))"), slots, true);
    const auto several = GradientOf(GraphOn(row.nodes, kFour), slots, true);
    ASSERT_TRUE(one.ok()) << row.what << one.status();
    ASSERT_TRUE(several.ok()) << row.what << several.status();
    const auto wanted = CpuEngine().Run(*one, arguments, ExactOptions());
    ASSERT_TRUE(wanted.ok()) << row.what << wanted.status();
    MultiEngine four(kDevices);
    const auto got = four.Run(*several, arguments, ExactOptions());
    ASSERT_TRUE(got.ok()) << row.what << got.status();
    ASSERT_EQ(got->results.size(), 1 + slots.size()) << row.what;
    for (size_t i = 0; i < got->results.size(); ++i) {
      // -0 counts as 0.
      const HostTensor &a = got->results[i], &b = wanted->results[i];
      ASSERT_EQ(a.bytes.size(), b.bytes.size()) << row.what << " result " << i;
      for (size_t at = 0; at < a.bytes.size(); at += 4) {
        float x, y;
        std::memcpy(&x, a.bytes.data() + at, 4);
        std::memcpy(&y, b.bytes.data() + at, 4);
        ASSERT_EQ(x, y) << row.what << " result " << i << " element " << at / 4;
      }
    }
    // As its parameter: slots 0 and 1 are split along the first axis.
    const auto loaded = four.Load(*four.Compile(*several, ExactOptions()));
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    for (size_t i = 0; i < slots.size(); ++i) {
      const runtime::ProgramValue& value = (*loaded)->results()[i + 1];
      EXPECT_EQ(value.layout.shares, slots[i] == 2 ? 1 : kDevices) << row.what << " slot " << slots[i];
      EXPECT_EQ(value.layout.axis, slots[i] == 2 ? -1 : 0) << row.what << " slot " << slots[i];
    }
  }
}

// A net's weights: rows of one parameter, whole on each device. Each row has its even
// share. And copies of one tensor: that has all of it.
TEST(MultiGradient, WholeWeights) {
  // y = x w, squared and summed: x (8, 4) split, w (4, 3) node `w`.
  const auto loss = [](int w) {
    return absl::Substitute(
        "$1 RESHAPE [3] axes=(8, 4, 1)\n$2 RESHAPE [$0] axes=(1, 4, 3)\n$3 MUL [$1, $2]\n"
        "$4 REDUCE [$3] ADD axes=(1)\n$5 MUL [$4, $4]\n$6 REDUCE [$5] ADD axes=(0, 2)\n$7 TUPLE [$6]\n",
        w, w + 1, w + 2, w + 3, w + 4, w + 5, w + 6, w + 7);
  };
  const std::string nodes[] = {
      // On one device.
      "6 CONST [] weakint 3\n7 STACK [1, 6]\n8 PARAM [7] slot=5 dtype=float32\n" + loss(8),
      // A row for each.
      "6 CONST [] weakint 3\n7 STACK [1, 1, 6]\n8 PARAM [7] slot=5 dtype=float32 device=DEVICES\n"
      "9 REPLICATED [8] index=0\n" +
          loss(9),
      // Copies of one.
      "6 CONST [] weakint 3\n7 STACK [1, 6]\n8 PARAM [7] slot=5 dtype=float32\n9 RESHAPE [8] axes=(1, 4, 3)\n"
      "10 EXPAND [9] axes=(4, 4, 3)\n11 COPY [10] load device=DEVICES\n12 REPLICATED [11] index=0\n" +
          loss(12)};
  std::vector<std::vector<float>> gradients;
  for (int i = 0; i < 3; ++i) {
    const auto graph = GradientOf(GraphOn(nodes[i], i == 0 ? R"(("D0"))" : kFour), {5}, false);
    ASSERT_TRUE(graph.ok()) << i << graph.status();
    HostTensor weights = Floats({4, 3}, 2);
    if (i == 1) {
      const std::string row = weights.bytes;
      for (int k = 1; k < kDevices; ++k) weights.bytes += row;
      weights.shape = {4, 4, 3};
    }
    const HostTensors arguments = {{0, Floats({8, 4}, 1)}, {5, weights}};
    const auto got = i == 0 ? CpuEngine().Run(*graph, arguments, ExactOptions())
                            : MultiEngine(kDevices).Run(*graph, arguments, ExactOptions());
    ASSERT_TRUE(got.ok()) << i << got.status();
    std::vector<float>& values = gradients.emplace_back(got->results[1].bytes.size() / 4);
    std::memcpy(values.data(), got->results[1].bytes.data(), got->results[1].bytes.size());
  }
  EXPECT_EQ(gradients[2], gradients[0]);
  std::vector<float> shares;
  for (int k = 0; k < kDevices; ++k) {
    for (float value : gradients[0]) shares.push_back(value / kDevices);
  }
  EXPECT_EQ(gradients[1], shares);
}

}  // namespace
}  // namespace kiln::testing
