#include "compiler/schedule/chain/chain.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

// Two products, the second of what the first one makes: made[h][m][n] = sum over k of a[h][m][k] * b[h][n][k], and
// result[h][m][d] = sum over n of made[h][m][n] * c[h][n][d].
class ChainTest : public testing::Test {
 protected:
  ChainTest() {
    v1::Target::Tuning& tuning = *target_.mutable_tuning();
    tuning.set_vector_bytes(16);
    tuning.set_l2_bytes(4 << 10);
    tuning.set_l3_bytes(4 << 10);
  }

  UOp* Storage(Op op, int64_t elements) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = DType::kInt32;
    return graph_.Make(op, {ShapeSource(graph_, {elements})}, arg);
  }
  UOp* Range(int64_t size, int64_t id, AxisType type = AxisType::kLoop) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{id, type});
  }
  // slot[i][j][k] of a kernel.
  UOp* At(uint32_t slot, int64_t rows, int64_t columns, UOp* i, UOp* j, UOp* k) {
    BufferArg arg;
    arg.slot = slot;
    arg.dtype = DType::kInt32;
    UOp* param = graph_.Make(Op::PARAM, {ShapeSource(graph_, {kHeads * rows * columns})}, arg);
    UOp* row = Add(graph_, Mul(graph_, i, Idx(graph_, rows)), j);
    return graph_.Make(Op::INDEX, {param, Add(graph_, Mul(graph_, row, Idx(graph_, columns)), k)});
  }
  UOp* Load(UOp* place) { return graph_.Make(Op::LOAD, {place}); }
  UOp* SumOf(UOp* a, UOp* b, UOp* range) {
    return graph_.Make(Op::REDUCE, {Mul(graph_, Load(a), Load(b)), range}, ReduceArg{Op::ADD, {}});
  }
  UOp* Kernel(UOp* place, UOp* value, UOp* i, UOp* j, UOp* k) {
    UOp* store = graph_.Make(Op::STORE, {place, value});
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, i, j, k})}, KernelArg{"k", {}, false, {}});
  }

  UOp* First(int64_t rows) {
    UOp *h = Range(kHeads, 0), *m = Range(rows, 1), *n = Range(kKeys, 2), *k = Range(kWidth, 3, AxisType::kReduce);
    UOp* sum = SumOf(At(1, rows, kWidth, h, m, k), At(2, kKeys, kWidth, h, n, k), k);
    return Kernel(At(0, rows, kKeys, h, m, n), sum, h, m, n);
  }
  // How it reads what was made: as it lies; made[h][n][m], of a square; with the last n first.
  enum class Way { kStraight, kTransposed, kBackwards };
  UOp* Second(int64_t rows, Way way = Way::kStraight) {
    UOp *h = Range(kHeads, 0), *m = Range(rows, 1), *d = Range(kWidth, 2), *n = Range(kKeys, 3, AxisType::kReduce);
    UOp* backwards = Add(graph_, Mul(graph_, n, Idx(graph_, -1)), Idx(graph_, kKeys - 1));
    UOp* made = way == Way::kTransposed ? At(1, kKeys, rows, h, n, m)
                                        : At(1, rows, kKeys, h, m, way == Way::kBackwards ? backwards : n);
    return Kernel(At(0, rows, kWidth, h, m, d), SumOf(made, At(2, kKeys, kWidth, h, n, d), n), h, m, d);
  }

  UOp* Call(std::vector<UOp*> src) { return graph_.Make(Op::CALL, src); }
  UOp* Chained(const std::vector<UOp*>& calls) {
    return ChainKernels(graph_, graph_.Make(Op::LINEAR, calls), {result_}, target_);
  }

  static constexpr int64_t kHeads = 3, kKeys = 40, kWidth = 4;
  Graph graph_;
  v1::Target target_;
  UOp* a_ = Storage(Op::PARAM, kHeads * 40 * kWidth);
  UOp* b_ = Storage(Op::PARAM, kHeads * kKeys * kWidth);
  UOp* c_ = Storage(Op::PARAM, kHeads * kKeys * kWidth);
  UOp* made_ = Storage(Op::BUFFER, kHeads * 40 * kKeys);
  UOp* result_ = Storage(Op::BUFFER, kHeads * 40 * kWidth);
};

std::vector<uint64_t> Numbers(int64_t count, uint64_t step) {
  std::vector<uint64_t> numbers(static_cast<size_t>(count), 0);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i * step % 17;
  return numbers;
}

TEST_F(ChainTest, AKernelOfSlicesHasTheValuesOfBoth) {
  for (int64_t rows : {40, 37, 8}) {
    SCOPED_TRACE(absl::StrCat(rows, " rows"));
    const UOp* list = Chained({Call({First(rows), made_, a_, b_}), Call({Second(rows), result_, made_, c_})});
    if (rows == 8) {
      EXPECT_EQ(list->src().size(), 2) << "in the cache as it is";
      continue;
    }
    ASSERT_EQ(list->src().size(), 1);
    const UOp* call = list->src(0);
    const std::vector<UOp*> storages(call->src().begin() + 1, call->src().end());
    EXPECT_EQ(storages[0], result_);
    EXPECT_EQ(storages.size(), 4u);

    const std::vector<uint64_t> a = Numbers(kHeads * rows * kWidth, 3), b = Numbers(kHeads * kKeys * kWidth, 5),
                                c = Numbers(kHeads * kKeys * kWidth, 7);
    const std::vector<uint64_t> none(static_cast<size_t>(kHeads * rows * kWidth), 99);
    KernelMemory first = {{0, std::vector<uint64_t>(static_cast<size_t>(kHeads * rows * kKeys), 0)}, {1, a}, {2, b}};
    ASSERT_TRUE(EvalKernel(First(rows), first).ok());
    KernelMemory second = {{0, none}, {1, first[0]}, {2, c}};
    ASSERT_TRUE(EvalKernel(Second(rows), second).ok());
    KernelMemory both;
    for (uint32_t slot = 0; slot < storages.size(); ++slot) {
      both[slot] = storages[slot] == a_ ? a : storages[slot] == b_ ? b : storages[slot] == c_ ? c : none;
    }
    const absl::Status status = EvalKernel(call->src(0), both);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(both[0], second[0]);
  }
}

TEST_F(ChainTest, LocalMemoryHoldsOneSlice) {
  const UOp* list = Chained({Call({First(40), made_, a_, b_}), Call({Second(40), result_, made_, c_})});
  int64_t bytes = 0;
  for (const UOp* uop : Toposort(list->src(0)->src(0))) {
    if (uop->op() == Op::BUFFER) bytes += NumElements(uop->shape()) * ItemSize(uop->dtype());
  }
  EXPECT_GT(bytes, 0);
  EXPECT_LE(bytes, 2 << 10) << "half of the cache";
}

TEST_F(ChainTest, TheSameBodiesMakeTheSameBody) {
  UOp *other = Storage(Op::BUFFER, kHeads * 40 * kKeys), *last = Storage(Op::BUFFER, kHeads * 40 * kWidth);
  const UOp* list = Chained({Call({First(40), made_, a_, b_}), Call({Second(40), last, made_, c_}),
                             Call({First(40), other, last, b_}), Call({Second(40), result_, other, c_})});
  ASSERT_EQ(list->src().size(), 2);
  EXPECT_EQ(list->src(0)->src(0), list->src(1)->src(0));
}

TEST_F(ChainTest, NothingHappens) {
  UOp *first = Call({First(40), made_, a_, b_}), *second = Call({Second(40), result_, made_, c_});
  UOp* other = Storage(Op::BUFFER, kHeads * 40 * kWidth);
  const auto expect_same = [&](const std::string& why, const std::vector<UOp*>& calls) {
    const UOp* list = Chained(calls);
    EXPECT_EQ(std::vector<UOp*>(list->src().begin(), list->src().end()), calls) << why;
  };
  expect_same("two read it", {first, second, Call({Second(40), other, made_, b_})});
  expect_same("what it is made of is written in between",
              {first, Call({Second(40), a_, Storage(Op::BUFFER, kHeads * 40 * kKeys), c_}), second});
  expect_same("what it is made of is what the second one writes", {first, Call({Second(40), a_, made_, c_})});
  expect_same("it is a result", {Call({First(40), result_, a_, b_}), Call({Second(40), other, result_, c_})});
  expect_same("rows of one are columns of the other",
              {first, Call({Second(40, Way::kTransposed), result_, made_, c_})});
  expect_same("its places are no plain sums", {first, Call({Second(40, Way::kBackwards), result_, made_, c_})});
  target_.mutable_tuning()->set_l2_bytes(1 << 20);
  expect_same("the cache holds it", {first, second});
}

}  // namespace
}  // namespace kiln::compiler
