// Random graphs on tuples of devices: compiled and run on them as interpreted. Whatever
// inference lets through must come out the same, or be refused as what it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/wire.h"
#include "compiler/ir/build.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/multi_engine.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using compiler::AxesArg;
using compiler::BufferArg;
using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;
using compiler::Op;
using compiler::ReduceArg;
using compiler::Shape;
using compiler::TextArg;
using compiler::UOp;

constexpr int64_t kMaxTensorElements = 512;

class Maker {
 public:
  Maker(uint64_t seed, int devices) : random_(seed), devices_(devices) {
    for (int i = 0; i < devices; ++i) absl::StrAppend(&tuple_, i == 0 ? "" : ",", "D", i);
    for (int i = devices - 1; i >= 0; --i) absl::StrAppend(&reversed_, i + 1 == devices ? "" : ",", "D", i);
    AddParam({8, 4}, tuple_);
    AddParam({4, 2, 4}, tuple_);
    AddParam({8, 4}, "");
    AddParam({4, 8}, "D1");
  }

  v1::Graph Make(int ops) {
    for (int i = 0; i < ops; ++i) Step();
    std::vector<UOp*> sources = stores_;
    for (int i = 0; i < 3; ++i) sources.push_back(Any());
    return compiler::ToWire(graph_.Make(Op::TUPLE, sources));
  }

  const HostTensors& arguments() const { return arguments_; }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(n))); }
  UOp* Any() { return values_[static_cast<size_t>(Below(static_cast<int64_t>(values_.size())))]; }

  void AddParam(const Shape& shape, const std::string& device) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(params_.size());
    arg.dtype = DType::kInt32;
    arg.device = device;
    params_.push_back(graph_.Make(Op::PARAM, {compiler::ShapeSource(graph_, shape)}, arg));
    values_.push_back(params_.back());
    HostTensor tensor{DType::kInt32, shape, ""};
    std::vector<int32_t> numbers;
    for (int64_t i = 0; i < compiler::NumElements(shape); ++i) numbers.push_back(static_cast<int32_t>(Below(41)) - 20);
    tensor.bytes.assign(reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size());
    arguments_[arg.slot] = std::move(tensor);
  }

  // What inference refuses is not there.
  UOp* Try(Op op, std::vector<UOp*> sources, compiler::Arg arg = {}) {
    const auto made = graph_.TryMake(op, sources, std::move(arg));
    if (!made.ok() || compiler::NumElements((*made)->shape()) > kMaxTensorElements) return nullptr;
    return *made;
  }
  UOp* Sizes(const Shape& shape) { return compiler::ShapeSource(graph_, shape); }

  Shape Factored(int64_t elements) {
    Shape shape;
    while (elements > 1 && shape.size() < 3) {
      std::vector<int64_t> factors;
      for (int64_t f = 2; f <= elements; ++f) {
        if (elements % f == 0) factors.push_back(f);
      }
      shape.push_back(factors[static_cast<size_t>(Below(static_cast<int64_t>(factors.size())))]);
      elements /= shape.back();
    }
    if (elements > 1) shape.push_back(elements);
    if (Below(3) == 0) shape.insert(shape.begin() + Below(static_cast<int64_t>(shape.size()) + 1), 1);
    return shape;
  }

  UOp* Copied(UOp* x) {
    const std::string targets[] = {tuple_, tuple_, reversed_, "D0", "D1"};
    return Try(Op::LOAD, {x}, TextArg{targets[Below(5)]});
  }

  // x, whole on each device of the tuple.
  UOp* Broadcast(UOp* x) {
    Shape row = x->shape();
    row.insert(row.begin(), 1);
    Shape rows = row;
    rows[0] = devices_;
    UOp* made = Try(Op::RESHAPE, {x, Sizes(row)});
    if (made != nullptr) made = Try(Op::EXPAND, {made, Sizes(rows)});
    if (made != nullptr) made = Try(Op::LOAD, {made}, TextArg{tuple_});
    return made == nullptr ? nullptr : Try(Op::REPLICATED, {made}, int64_t{0});
  }

  UOp* Boxed(UOp* x) {
    Shape offset, shape = x->shape();
    const bool pad = Below(2) == 0;
    for (auto& size : shape) {
      const int64_t by = Below(3) == 0 ? Below(pad ? 3 : std::max<int64_t>(int64_t{size}, 1)) : 0;
      offset.push_back(by == 0 ? 0 : Below(by + 1));
      size = pad ? int64_t{size} + by : int64_t{size} - by;
    }
    compiler::Arg fill;
    if (Below(2) == 0) fill = compiler::ConstInt(graph_, DType::kInt32, 3)->arg_as<compiler::ConstArg>();
    return Try(pad ? Op::PAD : Op::SHRINK, {x, Sizes(offset), Sizes(shape)}, pad ? fill : compiler::Arg());
  }

  UOp* Made(UOp* x) {
    const auto rank = static_cast<int64_t>(x->shape().size());
    switch (Below(12)) {
      case 0: return Copied(x);
      case 1: return Broadcast(x);
      case 2: return Boxed(x);
      case 3: {
        AxesArg flip;
        for (int64_t i = 0; i < rank; ++i) flip.axes.push_back(Below(2));
        return Try(Op::FLIP, {x}, flip);
      }
      case 4: {
        AxesArg order;
        for (int64_t i = 0; i < rank; ++i) order.axes.insert(order.axes.begin() + Below(i + 1), i);
        return Try(Op::PERMUTE, {x}, order);
      }
      case 5: return Try(Op::RESHAPE, {x, Sizes(Factored(compiler::NumElements(x->shape())))});
      case 6:
      case 7: {
        ReduceArg reduce;
        const Op reduces[] = {Op::ADD, Op::MAX, Op::MUL};
        reduce.op = reduces[Below(3)];
        for (int64_t i = 0; i < rank; ++i) {
          if (Below(2) == 0) reduce.axes.push_back(i);
        }
        return reduce.axes.empty() ? nullptr : Try(Op::REDUCE, {x}, reduce);
      }
      case 8: {
        Shape shape = x->shape();
        for (auto& size : shape) {
          if (size == 1) size = 1 + Below(4);
        }
        return Try(Op::EXPAND, {x, Sizes(shape)});
      }
      case 9: return Try(Op::LOAD, {x});
      default: {
        UOp* y = Any();
        const Op ops[] = {Op::ADD, Op::MUL, Op::MAX, Op::XOR};
        return Try(ops[Below(4)], {x, y});
      }
    }
  }

  void Step() {
    UOp* made = Made(Any());
    if (made != nullptr) values_.push_back(made);
    if (Below(8) != 0) return;
    // A STORE of something that fits, and the storage afterwards.
    UOp* target = params_[static_cast<size_t>(Below(static_cast<int64_t>(params_.size())))];
    for (int tries = 0; tries < 20; ++tries) {
      UOp* value = Any();
      UOp* store = value->shape() == target->shape() ? Try(Op::STORE, {target, value}) : nullptr;
      if (store == nullptr) continue;
      stores_.push_back(store);
      values_.push_back(graph_.Make(Op::AFTER, {target, store}));
      return;
    }
  }

  Random random_;
  const int devices_;
  std::string tuple_, reversed_;
  compiler::Graph graph_;
  std::vector<UOp*> params_, values_, stores_;
  HostTensors arguments_;
};

TEST(MultiDeviceRandom, CompiledIsAsInterpreted) {
  constexpr int kGraphs = 60;
  int refused = 0;
  for (int i = 0; i < kGraphs; ++i) {
    const int devices = 2 + 2 * (i % 2);
    Maker maker(1000 + static_cast<uint64_t>(i), devices);
    const v1::Graph graph = maker.Make(14);
    const auto wanted = RunInterpreted(graph, maker.arguments());
    ASSERT_TRUE(wanted.ok()) << "seed " << i << ": " << wanted.status();
    MultiEngine engine(devices);
    const auto got = engine.Run(graph, maker.arguments(), ExactOptions());
    if (!got.ok()) {
      const auto detail = DetailOf(got.status());
      ASSERT_TRUE(detail.has_value() && detail->code() == v1::UNSUPPORTED_SHARD) << "seed " << i << got.status();
      ++refused;
      continue;
    }
    for (size_t k = 0; k < wanted->results.size(); ++k)
      ASSERT_EQ(got->results[k].bytes, wanted->results[k].bytes) << "seed " << i << " result " << k;
    for (const auto& [slot, tensor] : wanted->written)
      ASSERT_EQ(got->written.at(slot).bytes, tensor.bytes) << "seed " << i << " slot " << slot;
  }
  EXPECT_LT(refused, kGraphs / 10);
}

}  // namespace
}  // namespace kiln::testing
