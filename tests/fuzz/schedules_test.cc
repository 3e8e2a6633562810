// Random schedules: legal OptOps in any order change no value.
//
// Kernels that reduce products of small whole numbers, so that every order of a sum
// gives the same, are scheduled at random; the interpreter runs them after each
// pass, and the machine code that is made of them runs too.
//   KILN_SEEDS=100000 ./dev fuzz schedules_test
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/import/wire.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/kernel/bounds.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/gpu_dims.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/ranges.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/lower/cost.h"
#include "compiler/opt/apply.h"
#include "compiler/opt/hoist.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/outer_reduce.h"
#include "compiler/opt/requested.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/pass/pipeline.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/rules/symbolic.h"
#include "compiler/target/gpu/architectures.h"
#include "compiler/target/target.h"
#include "compiler/testing/items_as_loops.h"
#include "runtime/hal/device.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using namespace compiler;  // NOLINT: a test about the IR
using client::Shape;
using client::Tensor;
using compiler::Graph;

constexpr int64_t kMaxLanes = 64;
constexpr int64_t kMaxSteps = 1'500'000;

// A matrix product in one of its forms, a convolution, or what has no operand to copy.
v1::Graph MakeGraph(Random& random) {
  client::Graph graph;
  const auto param = [&](uint32_t slot, const Shape& shape) { return graph.Param(slot, v1::FLOAT32, shape); };
  const int64_t m = random.In(1, 13), n = random.In(1, 21), k = random.In(1, 11), batch = random.In(1, 3);
  switch (random.Below(6)) {
    case 0: graph.Output(client::Matmul(param(0, {m, k}), param(1, {k, n}))); break;
    case 1: graph.Output(client::Relu(client::Linear(param(0, {m, k}), param(1, {n, k}), param(2, {n})))); break;
    case 2: graph.Output(client::Matmul(client::Transpose(param(0, {batch, k, m})), param(1, {batch, k, n}))); break;
    case 3: {
      client::ConvOptions options;
      options.padding = {random.In(0, 1), random.In(0, 1)};
      options.stride = {random.In(1, 2), random.In(1, 2)};
      graph.Output(client::Conv2d(param(0, {batch, 2, random.In(3, 6), random.In(3, 9)}), param(1, {4, 2, 3, 2}),
                                  Tensor(), options));
      break;
    }
    case 4: graph.Output(client::Sum(param(0, {m, n, k}), {random.In(0, 2)})); break;
    default: graph.Output(param(0, {m, n}) * param(1, {n}) + param(2, {m, n})); break;
  }
  return graph.Build().value();
}

// One OptOp that is legal for `sink`, or none that chance found.
class Scheduler {
 public:
  explicit Scheduler(Random& random) : random_(random) {}

  UOp* Apply(compiler::Graph& graph, UOp* sink, int most) {
    for (int i = 0; i < most; ++i) {
      OptOp opt{OptOp::kSplit, 0};
      if (!Choose(sink, opt)) continue;
      opts_.push_back(opt);
      sink = ApplyOpt(graph, sink, opt);
    }
    const std::vector<UOp*> axes = AxesOf(sink);
    std::vector<OptOp> last;
    if (Outputs(sink) > 0) last.push_back({OptOp::kThread, 0});
    opts_.insert(opts_.end(), last.begin(), last.end());
    return ApplyOpts(graph, sink, last);
  }

  std::string text() const {
    std::string text;
    for (const OptOp& opt : opts_) absl::StrAppend(&text, ToString(opt), "; ");
    return text;
  }
  bool Has(OptOp::Kind kind) const {
    return std::any_of(opts_.begin(), opts_.end(), [kind](const OptOp& opt) { return opt.kind == kind; });
  }

 private:
  static size_t Outputs(UOp* sink) {
    const std::vector<UOp*> axes = AxesOf(sink), output = OutputRanges(sink);
    return static_cast<size_t>(std::count_if(axes.begin(), axes.end(), [&](UOp* axis) {
      return std::find(output.begin(), output.end(), axis) != output.end();
    }));
  }

  bool Choose(UOp* sink, OptOp& opt) {
    const std::vector<UOp*> axes = AxesOf(sink);
    if (axes.empty()) return false;
    const auto outputs = static_cast<int64_t>(Outputs(sink)), count = static_cast<int64_t>(axes.size());
    opt.axis = static_cast<int>(random_.Below(axes.size()));
    const bool output = opt.axis < outputs;
    const int64_t size = axes[static_cast<size_t>(opt.axis)]->src(0)->const_int();
    switch (random_.Below(6)) {
      case 0:
      case 1: {
        std::vector<int64_t> factors;
        for (int64_t f = 2; f <= std::min<int64_t>(size, 16); ++f) {
          if (size % f == 0) factors.push_back(f);
        }
        if (factors.empty()) return false;
        opt.amount = random_.Pick(factors);
        opt.top = random_.OneIn(3);
        opt.target = output ? AxisType::kLoop : AxisType::kReduce;
        if (random_.OneIn(2) || (output && (Has(OptOp::kLocal) || Has(OptOp::kSwap))) ||
            lanes_ * opt.amount > kMaxLanes || dimension_ == 4)
          return true;
        lanes_ *= opt.amount;
        opt.dimension = dimension_++;
        opt.target = output ? AxisType::kUpcast : AxisType::kUnroll;
        return true;
      }
      case 2:
        opt.kind = OptOp::kPadTo;
        opt.amount = random_.In(2, 8);
        opt.clamp = random_.OneIn(2);
        return true;
      case 3:
        opt.kind = OptOp::kSwap;
        opt.amount = output ? random_.In(0, outputs - 1) : random_.In(outputs, count - 1);
        if (output && random_.OneIn(3) && outputs < count) {
          opt.amount = random_.In(outputs, count - 1);
          return CheckOuterReduce(sink, axes[static_cast<size_t>(opt.axis)], axes[static_cast<size_t>(opt.amount)])
              .ok();
        }
        return opt.amount != opt.axis;
      case 4: opt.kind = OptOp::kFuse; return opt.axis + 1 < outputs;
      default: {
        opt.kind = OptOp::kLocal;
        const std::vector<UOp*> operands = OperandsOf(sink), outer = OuterReduces(sink);
        const bool outside = !outer.empty() && random_.OneIn(2);  // in each iteration of a reduced loop
        if (operands.empty() || (!output && !outside)) return false;
        const size_t level_of_outer = outside ? random_.Below(outer.size()) : 0;
        if (outside) opt.axis = static_cast<int>(axes.size() + level_of_outer);
        opt.amount = static_cast<int64_t>(random_.Below(operands.size()));
        UOp* operand = operands[static_cast<size_t>(opt.amount)];
        UOp* level = outside ? outer[level_of_outer]->src(1) : axes[static_cast<size_t>(opt.axis)];
        const int64_t bytes = LocalBytes(sink, operand, level);
        return bytes > 0 && bytes + LocalBytes(sink) <= kMaxLocalBytes;
      }
    }
  }

  Random& random_;
  std::vector<OptOp> opts_;
  int64_t lanes_ = 1, dimension_ = 0;
};

// OptOps as a client may send them: often legal, often not.
std::vector<OptArg> RandomRequests(Random& random, bool gpu) {
  std::vector<OptArg> requests(random.Below(9));
  for (OptArg& request : requests) {
    request.kind = static_cast<int>(random.OneIn(12) ? random.In(-1, 9)
                                                     : random.Pick(std::vector<int64_t>{1, 1, 1, 2, 3, 3, 6, 7}));
    request.axis = random.OneIn(20) ? random.In(-2, 9) : random.In(0, 4);
    const auto count = random.OneIn(10)                   ? random.Below(6)
                       : request.kind == v1::OptOp::SPLIT ? static_cast<uint64_t>(random.In(2, 4))
                       : request.kind == v1::OptOp::PADTO ? static_cast<uint64_t>(random.In(1, 2))
                                                          : request.kind != v1::OptOp::FUSE;
    for (uint64_t i = 0; i < count; ++i) request.arg.push_back(random.In(0, 3));
    if (request.kind == v1::OptOp::SPLIT && count >= 2) {
      request.arg[0] = random.Pick(std::vector<int64_t>{0, 1, 2, 2, 3, 4, 5, 8});
      std::vector<int64_t> targets = {v1::AXIS_UPCAST, v1::AXIS_UPCAST, v1::AXIS_UNROLL, v1::AXIS_LOOP,
                                      v1::AXIS_REDUCE, v1::AXIS_LOCAL,  v1::AXIS_THREAD, 0};
      if (gpu)
        targets = {v1::AXIS_UPCAST, v1::AXIS_UNROLL,       v1::AXIS_LOCAL,  v1::AXIS_GROUP_REDUCE,
                   v1::AXIS_LOCAL,  v1::AXIS_GROUP_REDUCE, v1::AXIS_GLOBAL, v1::AXIS_REDUCE};
      request.arg[1] = random.Pick(targets);
    }
    if (request.kind == v1::OptOp::PADTO && count >= 1) request.arg[0] = random.In(1, 9);
    if (random.OneIn(40) && count > 0) request.arg.back() = random.OneIn(2) ? int64_t{1} << 62 : -1;
  }
  // Chance alone rarely finds a reduced axis, and a divisor of it.
  for (int i = 0; gpu && i < 3; ++i) {
    requests.insert(requests.begin(),
                    {v1::OptOp::SPLIT,
                     random.In(1, 4),
                     {random.Pick(std::vector<int64_t>{2, 2, 3, 5, 7}), v1::AXIS_GROUP_REDUCE, random.In(0, 1)}});
  }
  return requests;
}

// Whole numbers from -4 to 4.
HostTensor SmallNumbers(Random& random, const v1::Signature::Parameter& parameter) {
  HostTensor tensor;
  tensor.dtype = DType::kFloat32;
  tensor.shape.assign(parameter.shape().begin(), parameter.shape().end());
  std::vector<float> values(parameter.bytes() / sizeof(float));
  for (float& value : values) value = static_cast<float>(random.In(-4, 4));
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), parameter.bytes());
  return tensor;
}

class Schedules {
 public:
  // As a client sends them, legal or not, for the CPU or a GPU; or such as we make.
  enum Kind { kOurs, kRequested, kOfGpu };

  void Check(uint64_t seed, Kind kind = kOurs) {
    const bool requested = kind != kOurs, gpu = kind == kOfGpu;
    Random random(seed);
    const v1::Graph wire = MakeGraph(random);
    const v1::Target& target = engine_.device().target();
    v1::Executable executable = compiler::Compile(wire, target, {}).value();
    HostTensors arguments;
    for (const auto& parameter : executable.signature().parameters())
      arguments[parameter.slot()] = SmallNumbers(random, parameter);

    Graph graph;
    const Options options;
    Lowering lowering(graph, options);
    const auto sink = RunStage(lowering, Stage::kCallify, *FromWire(wire, Limits(), graph));
    ASSERT_TRUE(sink.ok());
    const auto calls = RunStage(lowering, Stage::kRangeify, *sink);
    ASSERT_TRUE(calls.ok());
    const Function* function = &lowering.function;
    if ((*calls)->src().size() != 1) return;  // a product of one factor and the like
    UOp* kernel = Decompose(graph, (*calls)->src(0)->src(0), NativeOps());
    KernelMemory memory;
    for (uint32_t slot = 0; slot + 1 < (*calls)->src(0)->src().size(); ++slot) {
      UOp* buffer = (*calls)->src(0)->src(slot + 1);
      auto& cells = memory[slot];
      cells.assign(static_cast<size_t>(NumElements(buffer->shape())), 0);
      const auto parameter = std::find(function->parameters.begin(), function->parameters.end(), buffer);
      if (parameter == function->parameters.end()) continue;
      const HostTensor& from = arguments.at((*parameter)->arg_as<BufferArg>().slot);
      for (size_t i = 0; i < cells.size(); ++i) cells[i] = LoadElement(from.dtype, from.bytes.data() + 4 * i);
    }
    KernelMemory want = memory;
    ASSERT_TRUE(EvalKernel(kernel, want, kMaxSteps).ok());
    std::vector<uint32_t> inputs;
    for (uint32_t slot = 1; slot < memory.size(); ++slot) inputs.push_back(slot);
    kernel = MarkConstants(graph, kernel, inputs);

    std::string what = absl::StrCat("seed ", seed, ": ");
    UOp* scheduled = nullptr;
    if (requested) {
      const v1::Target scheduled_for = gpu ? *GpuTarget("sm_90a") : target;
      std::vector<OptArg> requests = RandomRequests(random, gpu);
      auto made = ApplyRequested(graph, kernel, requests, scheduled_for);
      // What is refused is named by its place; the rest may be legal without it.
      for (; !made.ok(); made = ApplyRequested(graph, kernel, requests, scheduled_for)) {
        ASSERT_TRUE(absl::IsInvalidArgument(made.status()) || absl::IsUnimplemented(made.status())) << made.status();
        size_t place = 0;
        ASSERT_EQ(std::sscanf(std::string(made.status().message()).c_str(), "OptOp %zu ", &place), 1) << made.status();
        ASSERT_LT(place, requests.size()) << made.status();
        requests.erase(requests.begin() + static_cast<int64_t>(place));
        ++refused_;
      }
      taken_ += static_cast<int>(requests.size());
      scheduled = made->sink;
      absl::StrAppend(&what, ToString(made->opts));
      // What it says is what it did.
      EXPECT_EQ(*ParseSchedule(ToString(made->opts)), made->opts);
    } else {
      Scheduler scheduler(random);
      scheduled = scheduler.Apply(graph, kernel, static_cast<int>(random.In(1, 12)));
      copies_ += scheduler.Has(OptOp::kLocal);
      absl::StrAppend(&what, scheduler.text());
    }
    if (!gpu) CheckHoisted(graph, scheduled, memory, want, what);
    UOp* proved = *ProveBounds(graph, scheduled, false);
    if (gpu) {
      // Work items as loops.
      proved = GraphRewrite(GpuDims(graph, proved, true), SymbolicRules(), graph);
      const std::vector<UOp*> order = Toposort(proved);
      reduces_by_items_ += std::any_of(order.begin(), order.end(), [](const UOp* uop) {
        return uop->op() == Op::REDUCE && uop->src().back()->op() == Op::SPECIAL;
      });
      proved = ItemsAsLoops(graph, proved);
    }
    UOp* linear = Linearize(graph, ReduceToAcc(graph, Expand(graph, proved)));
    for (const auto& [name, stage] : std::vector<std::pair<const char*, UOp*>>{
             {"scheduled", scheduled}, {"with bounds", proved}, {"listed", linear}}) {
      KernelMemory made = memory;
      const absl::Status status = EvalKernel(stage, made, 4 * kMaxSteps);
      if (absl::IsResourceExhausted(status)) continue;  // padding, and copies made again, take steps
      ASSERT_TRUE(status.ok()) << status << " " << name << ", " << what;
      ASSERT_TRUE(made == want) << name << ", " << what << "\n" << ToText(stage);
    }

    if (gpu) return;

    // The same program with this schedule's machine code in place of the usual.
    auto generator = MakeCodeGenerator(target, {}).value();
    ASSERT_TRUE(generator->AddKernel(linear, executable.kernels(0).symbol()).ok());
    const auto usual = engine_.RunLoaded(engine_.Load(executable).value(), arguments);
    *executable.mutable_object() = generator->Object().value();
    executable.mutable_kernels(0)->set_iterations(IterationsOf(linear));
    executable.mutable_kernels(0)->set_grain(1);
    const auto ours = engine_.RunLoaded(engine_.Load(executable).value(), arguments);
    ASSERT_TRUE(usual.ok() && ours.ok());
    // Either zero may come of an empty sum.
    for (size_t i = 0; i < want.at(0).size(); ++i) {
      const auto value = [&](const auto& outcome) {
        float element = 0;
        std::memcpy(&element, outcome->results[0].bytes.data() + 4 * i, sizeof(element));
        return element;
      };
      const auto cell = static_cast<uint32_t>(want.at(0)[i]);
      ASSERT_EQ(value(ours), std::bit_cast<float>(cell)) << "element " << i << ", " << what;
      ASSERT_EQ(value(usual), std::bit_cast<float>(cell)) << "element " << i << ", " << what;
    }
  }

  // With the copies of its inputs made beforehand.
  void CheckHoisted(Graph& graph, UOp* scheduled, const KernelMemory& memory, const KernelMemory& want,
                    const std::string& what) {
    std::vector<Hoisted> hoisted;
    const auto slots = static_cast<uint32_t>(memory.size());
    UOp* reading = HoistCopies(graph, scheduled, slots, hoisted);
    KernelMemory made = memory;
    for (uint32_t i = 0; i < hoisted.size(); ++i) {
      KernelMemory own;
      own[0] = memory.at(hoisted[i].slot);
      own[1].assign(static_cast<size_t>(hoisted[i].bytes) / sizeof(float), 0);
      if (absl::IsResourceExhausted(EvalKernel(*ProveBounds(graph, hoisted[i].sink, false), own, kMaxSteps))) return;
      made[slots + i] = own[1];
    }
    const absl::Status status = EvalKernel(*ProveBounds(graph, reading, false), made, 4 * kMaxSteps);
    if (absl::IsResourceExhausted(status)) return;
    ASSERT_TRUE(status.ok()) << status << " hoisted, " << what;
    for (const auto& [slot, cells] : want)
      ASSERT_TRUE(made.at(slot) == cells) << "hoisted, " << what << "\n" << ToText(reading);
    hoisted_ += static_cast<int>(hoisted.size());
  }

  int copies() const { return copies_; }
  int hoisted() const { return hoisted_; }
  int taken() const { return taken_; }
  int refused() const { return refused_; }
  int reduces_by_items() const { return reduces_by_items_; }

 private:
  CpuEngine engine_{2};
  int copies_ = 0, hoisted_ = 0, taken_ = 0, refused_ = 0, reduces_by_items_ = 0;
};

TEST(Schedules, ChangeNoValue) {
  Schedules schedules;
  for (uint64_t seed = 0; seed < 60 && !HasFatalFailure(); ++seed) schedules.Check(seed);
  EXPECT_GT(schedules.copies(), 5);
  EXPECT_GT(schedules.hoisted(), 5);
}

// A client's OptOps are refused, or change no value.
TEST(Schedules, Requested) {
  Schedules schedules;
  for (uint64_t seed = 0; seed < 120 && !HasFatalFailure(); ++seed) schedules.Check(seed, Schedules::kRequested);
  EXPECT_GT(schedules.taken(), 80);
  EXPECT_GT(schedules.refused(), 80);
}

TEST(Schedules, OfGpus) {
  Schedules schedules;
  for (uint64_t seed = 0; seed < 150 && !HasFatalFailure(); ++seed) schedules.Check(seed, Schedules::kOfGpu);
  EXPECT_GT(schedules.taken(), 80);
  EXPECT_GT(schedules.reduces_by_items(), 8);
}

// As many as KILN_SEEDS says.
TEST(Schedules, ManyMore) {
  const char* seeds = std::getenv("KILN_SEEDS");
  if (seeds == nullptr) GTEST_SKIP() << "a long run: KILN_SEEDS=100000";
  Schedules schedules;
  for (uint64_t seed = 1000; seed < 1000 + std::strtoull(seeds, nullptr, 10) && !HasFatalFailure(); ++seed)
    schedules.Check(seed, static_cast<Schedules::Kind>(seed % 3));
}

}  // namespace
}  // namespace kiln::testing
