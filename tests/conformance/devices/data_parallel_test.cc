// Data-parallel training: the demo's step, its weights whole on four devices and its
// batch split over them, trains as on one device. Nothing in the step says how: the
// gradients' sums over the batch are reduced, since the batch is split.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/demo/digits.h"
#include "client/demo/model.h"
#include "compiler/gradient/gradient.h"
#include "runtime/exec/loaded_executable.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/multi_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;

constexpr int kDevices = 4;
constexpr int64_t kBatch = 32;
constexpr int kSteps = 12;

absl::StatusOr<v1::Graph> Step(demo::Architecture architecture, int64_t images) {
  const demo::StepOptions options = {.images = images, .batch = kBatch};
  v1::GradientRequest request;
  KILN_ASSIGN_OR_RETURN(*request.mutable_graph(), demo::Loss(architecture, options));
  for (uint32_t slot : demo::WeightSlots(architecture)) request.add_wrt_slot(slot);
  request.set_include_results(true);
  KILN_ASSIGN_OR_RETURN(const v1::GradientResponse gradient, compiler::Gradient(request, compiler::Limits()));
  return demo::TrainingStep(architecture, options, gradient);
}

// The graph with its PARAMs on D0 to D3: that of kRows split, all others whole on each,
// as rows of a larger PARAM.
v1::Graph OnDevices(const v1::Graph& graph, const v1::Signature& signature) {
  std::map<uint32_t, std::vector<int64_t>> shapes;
  for (const auto& parameter : signature.parameters())
    shapes[parameter.slot()].assign(parameter.shape().begin(), parameter.shape().end());
  v1::Graph made;
  std::vector<uint32_t> number;
  const auto last = [&made] { return static_cast<uint32_t>(made.nodes_size() - 1); };
  for (const v1::UOp& node : graph.nodes()) {
    EXPECT_NE(node.op(), v1::FUNCTION);  // whose PARAMs are its own
    v1::UOp copy = node;
    for (int i = 0; i < copy.src_size(); ++i) copy.set_src(i, number[copy.src(i)]);
    if (node.op() == v1::PARAM) {
      for (int i = 0; i < kDevices; ++i) copy.mutable_buffer()->add_device(absl::StrCat("D", i));
    }
    if (node.op() != v1::PARAM || node.buffer().slot() == demo::kRows) {
      *made.add_nodes() = std::move(copy);
      number.push_back(last());
      continue;
    }
    std::vector<int64_t> shape = shapes.at(node.buffer().slot());
    shape.insert(shape.begin(), kDevices);
    std::vector<uint32_t> sizes;
    for (int64_t size : shape) {
      v1::UOp* constant = made.add_nodes();
      constant->set_op(v1::CONST);
      constant->mutable_constant()->set_dtype(v1::WEAKINT);
      constant->mutable_constant()->set_i(size);
      sizes.push_back(last());
    }
    v1::UOp* stack = made.add_nodes();
    stack->set_op(v1::STACK);
    stack->mutable_src()->Add(sizes.begin(), sizes.end());
    copy.clear_src();
    copy.add_src(last());
    *made.add_nodes() = std::move(copy);
    v1::UOp* replica = made.add_nodes();
    replica->set_op(v1::REPLICATED);
    replica->add_src(last() - 1);
    replica->set_index(0);
    number.push_back(last());
  }
  return made;
}

template <typename T>
HostTensor TensorOf(DType dtype, compiler::Shape shape, const std::vector<T>& values) {
  HostTensor tensor{dtype, std::move(shape), ""};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return tensor;
}

HostTensor FromClient(const client::HostTensor& tensor) {
  HostTensor made;
  made.dtype = compiler::FromWire(tensor.dtype);
  made.shape.assign(tensor.shape.begin(), tensor.shape.end());
  made.bytes = tensor.bytes;
  return made;
}

HostTensor Replicas(const HostTensor& tensor) {
  HostTensor made = tensor;
  made.shape.insert(made.shape.begin(), kDevices);
  for (int i = 1; i < kDevices; ++i) made.bytes += tensor.bytes;
  return made;
}

class DataParallel : public ::testing::TestWithParam<demo::Architecture> {
 protected:
  void SetUp() override {
    auto digits = demo::LoadDigits("client/demo/data");
    ASSERT_TRUE(digits.ok()) << digits.status();
    digits_ = *std::move(digits);
  }

  // What there is before the first step, by slot.
  HostTensors Begin() const {
    HostTensors state;
    const int64_t count = digits_.count();
    state[demo::kImages] = TensorOf(DType::kUint8, {count, 8, 8}, digits_.images);
    state[demo::kLabels] = TensorOf(DType::kUint8, {count}, digits_.labels);
    state[demo::kRate] = TensorOf<float>(DType::kFloat32, {}, {0.05f});
    state[demo::kStats] = TensorOf<float>(DType::kFloat32, {2}, {0, 0});
    const std::vector<client::HostTensor> weights = demo::InitialWeights(GetParam(), 3);
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto slot = demo::kFirstWeight + 2 * static_cast<uint32_t>(i);
      state[slot] = FromClient(weights[i]);
      state[slot + 1] = state[slot];
      std::fill(state[slot + 1].bytes.begin(), state[slot + 1].bytes.end(), '\0');
    }
    return state;
  }

  // kSteps steps with `run`, which takes the state and gives what it has become.
  template <typename Run>
  HostTensors Train(HostTensors state, const Run& run) const {
    std::mt19937_64 random(11);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<int32_t> rows(kBatch);
      for (int32_t& row : rows) row = static_cast<int32_t>(random() % static_cast<uint64_t>(digits_.count()));
      state[demo::kRows] = TensorOf(DType::kInt32, {kBatch}, rows);
      const absl::StatusOr<compiler::InterpResult> result = run(state);
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) return {};
      for (const auto& [slot, tensor] : result->written) state[slot] = tensor;
    }
    return state;
  }

  demo::Digits digits_;
};

TEST_P(DataParallel, FourDevicesTrainAsOne) {
  const auto step = Step(GetParam(), digits_.count());
  ASSERT_TRUE(step.ok()) << step.status();
  CpuEngine one(1);
  const auto program = one.Load(*step, ExactOptions());
  ASSERT_TRUE(program.ok()) << program.status();
  const HostTensors begin = Begin();
  const HostTensors alone = Train(begin, [&](const HostTensors& state) { return one.RunLoaded(*program, state); });
  ASSERT_FALSE(alone.empty());

  const v1::Graph split = OnDevices(*step, (*program)->signature());
  HostTensors replicas;
  for (const auto& [slot, tensor] : begin) replicas[slot] = Replicas(tensor);
  // On devices in any order and in theirs; and in theirs by one device of four names.
  HostTensors trained[3];
  for (int run = 0; run < 3; ++run) {
    MultiEngine four(kDevices, /*as_one=*/run == 2);
    compiler::Options options = ExactOptions();
    options.deterministic = run > 0;
    const auto message = four.Compile(split, options);
    ASSERT_TRUE(message.ok()) << message.status();
    // The batch is met in sums alone.
    for (const v1::MultiStep& part : message->steps()) {
      if (!part.has_transfer()) continue;
      EXPECT_EQ(part.transfer().kind(), v1::TransferStep::ALL_REDUCE);
    }
    const auto loaded = four.Load(*message);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    trained[run] = Train(replicas, [&](const HostTensors& state) { return four.RunLoaded(*loaded, state); });
    ASSERT_FALSE(trained[run].empty());
  }

  double greatest = 0;
  for (const auto& [slot, tensor] : alone) {
    if (slot < demo::kStats) continue;
    // In the order of the devices, however many threads and queues there are.
    EXPECT_EQ(trained[1].at(slot).bytes, trained[2].at(slot).bytes) << "slot " << slot;
    const std::string& bytes = trained[0].at(slot).bytes;
    ASSERT_EQ(bytes.size(), kDevices * tensor.bytes.size());
    for (int i = 1; i < kDevices; ++i)
      EXPECT_EQ(bytes.substr(0, tensor.bytes.size()), bytes.substr(i * tensor.bytes.size(), tensor.bytes.size()));
    std::vector<float> wanted(tensor.bytes.size() / 4), got(wanted.size());
    std::memcpy(wanted.data(), tensor.bytes.data(), tensor.bytes.size());
    std::memcpy(got.data(), bytes.data(), tensor.bytes.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double error = std::abs(wanted[i] - got[i]) / std::max(1.0, std::abs(double{wanted[i]}));
      greatest = std::max(greatest, error);
    }
  }
  EXPECT_LT(greatest, 1e-5);
  EXPECT_NE(alone.at(demo::kFirstWeight).bytes, begin.at(demo::kFirstWeight).bytes);  // something was learnt
}

INSTANTIATE_TEST_SUITE_P(Models, DataParallel, ::testing::Values(demo::Architecture::kConv, demo::Architecture::kMlp));

}  // namespace
}  // namespace kiln::testing
