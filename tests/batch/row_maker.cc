#include "tests/batch/row_maker.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "client/cpp/ops.h"
#include "tests/support/random.h"

namespace kiln::testing {
namespace {

using client::Size;
using client::Sizes;
using client::Tensor;

class RowMaker {
 public:
  explicit RowMaker(uint64_t seed) : random_(seed) {
    const auto columns = [&] { return random_.In(1, 5); };
    const int64_t k = columns(), c = columns();
    Add({batch_, k});
    Add({batch_, k, c});
    Add({batch_}, v1::INT32);
    Add({batch_, k}, v1::INT32);
    Add({random_.OneIn(2) ? batch_ * 2 : batch_, c});
    if (random_.OneIn(3)) Add({batch_, tokens_, k});
    if (random_.OneIn(3)) Add({tokens_, k});
    Add({k});
    Add({k, c});
    Add({6, c});
  }

  // Adds one more value. With `mixes`, one that is likely to mix rows.
  void Step(bool mixes) {
    const Tensor x = mixes ? Rows() : Any();
    const Tensor y = mixes ? Mixed(x) : Kept(x);
    if (y.valid() && Elements(y) > 0 && Elements(y) <= 4000) pool_.push_back(y);
  }

  v1::Graph Finish(bool last_mixes) {
    Tensor last;
    for (const Tensor& x : pool_) {
      if (HasRows(x)) last = x;
    }
    if (last_mixes) {
      do last = Mixed(Rows());
      while (!last.valid());
    }
    graph_.Output(last);
    if (!last_mixes && random_.OneIn(2)) graph_.Output(Any());
    const auto made = graph_.Build();
    KILN_CHECK(made.ok());
    return *made;
  }

 private:
  void Add(const Sizes& sizes, v1::DType dtype = v1::FLOAT32) { pool_.push_back(graph_.Param(slot_++, dtype, sizes)); }

  static int64_t Elements(const Tensor& x) {
    int64_t n = 1;
    for (const Size& size : x.sizes()) n *= size.greatest();
    return n;
  }
  static bool IsFloat(const Tensor& x) { return x.dtype() == v1::FLOAT32; }
  bool HasRows(const Tensor& x) const { return x.rank() > 0 && x.size(0).DividedBy(batch_).has_value(); }

  // Newer ones more often.
  Tensor Any() {
    return random_.OneIn(2) ? pool_[pool_.size() - 1 - random_.Below(std::min<size_t>(pool_.size(), 4))]
                            : pool_[random_.Below(pool_.size())];
  }
  Tensor Rows() {
    while (true) {
      const Tensor x = Any();
      if (HasRows(x)) return x;
    }
  }
  Tensor Float(Tensor x) { return IsFloat(x) ? x : client::Cast(x, v1::FLOAT32); }
  Tensor Int(Tensor x) { return IsFloat(x) ? client::Cast(x, v1::INT32) : x; }

  static bool Broadcasts(const Tensor& a, const Tensor& b) {
    for (int64_t i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
      const Size x = a.size(-i), y = b.size(-i);
      if (!(x == y) && !x.IsNumber(1) && !y.IsNumber(1)) return false;
    }
    return true;
  }

  int64_t Column(const Tensor& x) { return random_.In(HasRows(x) ? 1 : 0, x.rank() - 1); }

  // What leaves rows apart, if `x` has any.
  Tensor Kept(Tensor x) {
    switch (random_.Below(18)) {
      case 0: return client::Relu(x);
      case 9: return client::Contiguous(x);
      case 1: return client::Exp2(Float(x));
      case 2: return -x;
      case 3:
      case 4:
      case 5: {
        Tensor y = Any();
        if (!Broadcasts(x, y)) return {};
        if (IsFloat(x) != IsFloat(y)) x = Float(x), y = Float(y);
        return random_.OneIn(2) ? x + y : x * y;
      }
      case 6: return client::Where(x < Tensor(pool_[2]).graph()->Constant(1, x.dtype()), x * 3, x);
      case 7: return client::Embedding(graph_.Param(slot_++, v1::FLOAT32, {4, 3}), Int(x));
      case 8:
        if (HasRows(x) && x.rank() > 1 && x.size(1).number() && random_.OneIn(2))
          return client::Reshape(x, MergedInFront(x));
        if (HasRows(x)) return Split(x);
        return {};
      default: break;
    }
    if (x.rank() == 0 || (HasRows(x) && x.rank() == 1)) return {};
    const int64_t axis = Column(x);
    if (!x.size(axis).number()) return random_.OneIn(2) ? client::Sum(x, axis) : client::Max(x, axis);
    switch (random_.Below(9)) {
      case 0: return client::Sum(x, axis, random_.OneIn(2));
      case 1: return client::Max(x, axis, random_.OneIn(2));
      case 2: return client::Softmax(Float(x), axis);
      case 3: return client::Flip(x, {axis});
      case 4: return client::CumSum(x, axis);
      case 5: return Padded(x, axis, random_.In(0, 2), random_.In(0, 2));
      case 6: return client::Slice(x, axis, random_.In(0, 1), x.size(axis), 1);
      case 7: {
        std::vector<int64_t> order;
        for (int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
        std::swap(order[axis], order[static_cast<size_t>(Column(x))]);
        return client::Permute(x, order);
      }
      default: return client::IndexSelect(x, axis, Int(graph_.Param(slot_++, v1::INT32, {random_.In(1, 3)})));
    }
  }

  // What most likely does not; nothing where it cannot be made of `x`, which has rows.
  Tensor Mixed(Tensor x) {
    const bool alone = x.size(0) == batch_;
    switch (random_.Below(12)) {
      case 0: return client::Sum(x, 0, true) + x;
      case 1: return client::Max(x, 0);
      case 2: return client::Flip(x, {0});
      case 3: return client::Shrink(Padded(x, 0, 1, 0), Box(x));
      case 4: return alone && x.rank() == 1 ? x + graph_.Arange(batch_, x.dtype()) : Tensor();
      case 5: return x * graph_.Number(batch_, x.dtype());
      case 6: {
        const Tensor flat = client::Reshape(x, {-1});
        return client::Reshape(client::Shrink(Padded(flat, 0, 0, 1), {{1, flat.size(0) + 1}}), x.sizes());
      }
      case 7: return alone ? client::IndexSelect(x, 0, Tensor(pool_[2])) : Tensor();
      case 8: return client::Softmax(Float(x), 0);
      case 9: return x.rank() == 2 ? client::Matmul(x, client::Permute(x, {1, 0})) : Tensor();
      case 10:
        return x.rank() == 2 && !x.size(1).IsNumber(1) ? client::Reshape(client::Permute(x, {1, 0}), x.sizes())
                                                       : Tensor();
      default: return client::Index(x, {graph_.Constant(0, v1::INT32)});
    }
  }

  Tensor Padded(Tensor x, int64_t axis, int64_t before, int64_t after) {
    client::AxisRanges padding(static_cast<size_t>(x.rank()), {0, 0});
    padding[static_cast<size_t>(axis)] = {before, after};
    return client::Pad(x, padding);
  }
  static client::AxisRanges Box(const Tensor& x) {
    client::AxisRanges box;
    for (const Size& size : x.sizes()) box.push_back({0, size});
    return box;
  }
  static Sizes MergedInFront(const Tensor& x) {
    Sizes sizes = {x.size(0) * x.size(1)};
    for (int64_t i = 2; i < x.rank(); ++i) sizes.push_back(x.size(i));
    return sizes;
  }
  // (batch * c, ...) to (batch, c, ...)
  Tensor Split(Tensor x) {
    Sizes sizes = {batch_, *x.size(0).DividedBy(batch_)};
    for (int64_t i = 1; i < x.rank(); ++i) sizes.push_back(x.size(i));
    return sizes.size() > 5 ? Tensor() : client::Reshape(x, sizes);
  }

  Random random_;
  client::Graph graph_;
  Size batch_ = graph_.Variable(kBatch, 1, 8, "batch");
  Size tokens_ = graph_.Variable(kTokens, 1, 4, "tokens");
  uint32_t slot_ = 0;
  std::vector<Tensor> pool_;
};

}  // namespace

v1::Graph MakeRowGraph(uint64_t seed, int mixed_steps, bool last_mixes) {
  Random random(seed);
  RowMaker maker(seed + 1);
  const uint64_t steps = 3 + random.Below(8);
  for (uint64_t i = 0; i < steps; ++i) {
    maker.Step(false);
    if (mixed_steps > 0 && random.OneIn(2)) maker.Step(true), --mixed_steps;
  }
  return maker.Finish(last_mixes);
}

}  // namespace kiln::testing
