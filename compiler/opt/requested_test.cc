// OptOps that a client asks for: what is legal gives what ApplyOpts would, and what is
// not is refused with its place and the reason.
#include "compiler/opt/requested.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/structure/group_product.h"

namespace kiln::compiler {
namespace {

class RequestedTest : public testing::Test {
 protected:
  RequestedTest() {
    target_.mutable_tuning()->set_vector_bytes(64);
    target_.mutable_tuning()->set_vector_registers(32);
  }

  UOp* Param(uint32_t slot, int64_t size, DType dtype = DType::kFloat32) {
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {size})}, BufferArg{slot, dtype});
  }
  UOp* Loop(int64_t size, AxisType type = AxisType::kLoop) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), type});
  }
  UOp* At(UOp* storage, UOp* index) { return graph_.Make(Op::INDEX, {storage, index}); }
  UOp* Load(UOp* storage, UOp* index) { return graph_.Make(Op::LOAD, {At(storage, index)}); }
  UOp* Row(UOp* i, int64_t n, UOp* j) { return Add(graph_, Mul(graph_, i, Idx(graph_, n)), j); }
  UOp* Kernel(UOp* place, UOp* value, std::vector<UOp*> loops) {
    loops.insert(loops.begin(), graph_.Make(Op::STORE, {place, value}));
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, loops)});
  }

  // C[m, n] = A[m, k] * B[k, n]: axes 0, 1 and 2.
  UOp* Product(int64_t m, int64_t n, int64_t k) {
    UOp *i = Loop(m), *j = Loop(n), *r = Loop(k, AxisType::kReduce);
    UOp* product = Mul(graph_, Load(Param(1, m * k), Row(i, k, r)), Load(Param(2, k * n), Row(r, n, j)));
    UOp* sum = graph_.Make(Op::REDUCE, {product, r}, ReduceArg{Op::ADD, {}});
    return Kernel(At(Param(0, m * n), Row(i, n, j)), sum, {i, j});
  }
  // The same of float16, added up in float32.
  UOp* Halves(int64_t m, int64_t n, int64_t k) {
    UOp *i = Loop(m), *j = Loop(n), *r = Loop(k, AxisType::kReduce);
    const auto wide = [&](uint32_t slot, int64_t size, UOp* index) {
      return Cast(graph_, Load(Param(slot, size, DType::kFloat16), index), DType::kFloat32);
    };
    UOp* product = Mul(graph_, wide(1, m * k, Row(i, k, r)), wide(2, k * n, Row(r, n, j)));
    UOp* sum = graph_.Make(Op::REDUCE, {product, r}, ReduceArg{Op::ADD, {}});
    return Kernel(At(Param(0, m * n), Row(i, n, j)), sum, {i, j});
  }
  // Rows without their mean: axes row, column; and those of the sum.
  UOp* Centred(int64_t m, int64_t n) {
    UOp *i = Loop(m), *j = Loop(n), *r = Loop(n, AxisType::kReduce);
    UOp* sum = graph_.Make(Op::REDUCE, {Load(Param(1, m * n), Row(i, n, r)), r}, ReduceArg{Op::ADD, {}});
    return Kernel(At(Param(0, m * n), Row(i, n, j)), Add(graph_, Load(Param(1, m * n), Row(i, n, j)), sum), {i, j});
  }
  // C[m, n] = A[m, k] * B[k, n] + the sums of D[m, l, n] along l: axes 0 to 3.
  UOp* ProductAndSums(int64_t m, int64_t n, int64_t k, int64_t l) {
    UOp *i = Loop(m), *j = Loop(n), *r = Loop(k, AxisType::kReduce), *s = Loop(l, AxisType::kReduce);
    UOp* product = Mul(graph_, Load(Param(1, m * k), Row(i, k, r)), Load(Param(2, k * n), Row(r, n, j)));
    UOp* sum = graph_.Make(Op::REDUCE, {product, r}, ReduceArg{Op::ADD, {}});
    UOp* column = Load(Param(3, m * l * n), Row(Row(i, l, s), n, j));
    UOp* sums = graph_.Make(Op::REDUCE, {column, s}, ReduceArg{Op::ADD, {}});
    return Kernel(At(Param(0, m * n), Row(i, n, j)), Add(graph_, sum, sums), {i, j});
  }
  // The last row of a matrix: the later iteration wins.
  UOp* LastRow(int64_t m, int64_t n) {
    UOp *i = Loop(m), *j = Loop(n);
    return Kernel(At(Param(0, n), j), Load(Param(1, m * n), Row(i, n, j)), {i, j});
  }

  std::vector<OptArg> Requests(const std::string& text) {
    std::vector<OptArg> requests;
    const auto opts = ParseSchedule(text);
    EXPECT_TRUE(opts.ok()) << opts.status();
    for (const OptOp& opt : *opts) requests.push_back(ToRequest(opt));
    return requests;
  }

  void ExpectRefused(UOp* kernel, const std::vector<OptArg>& opts, const std::string& what) {
    const auto made = ApplyRequested(graph_, kernel, opts, target_);
    ASSERT_FALSE(made.ok()) << what;
    EXPECT_EQ(DetailOf(made.status())->code(), v1::BAD_ARGUMENT) << made.status();
    EXPECT_NE(made.status().message().find(what), absl::string_view::npos) << made.status();
  }

  Graph graph_;
  v1::Target target_;
};

TEST_F(RequestedTest, ALegalScheduleIsAppliedAsItIs) {
  const std::string text =
      "PADTO(0, 6, clamp); PADTO(1, 64); SPLIT(0, 6, UPCAST); SPLIT(1, 16, UPCAST, dim 2); SPLIT(1, 4, UPCAST, dim 1); "
      "SWAP(0, 1); LOCAL(0, 1); THREAD(0)";
  UOp* kernel = Product(100, 200, 300);
  const auto made = ApplyRequested(graph_, kernel, Requests(text), target_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ToString(made->opts), text);
  UOp* same = ApplyOpts(graph_, kernel, *ParseSchedule(text));
  EXPECT_EQ(Toposort(made->sink).size(), Toposort(same).size());
  EXPECT_EQ(AxesOf(made->sink).size(), 3);
}

TEST_F(RequestedTest, ThreadsAndLaneDimensionsMayBeLeftOut) {
  const auto made = ApplyRequested(graph_, Product(8, 8, 8),
                                   {{v1::OptOp::SPLIT, 0, {2, v1::AXIS_UPCAST}},
                                    {v1::OptOp::SPLIT, 1, {4, v1::AXIS_UPCAST, 0}},
                                    {v1::OptOp::NOLOCALS, 0, {}},
                                    {v1::OptOp::SPLIT, 2, {2, v1::AXIS_GROUP_REDUCE, 1, -1}},
                                    {v1::OptOp::SPLIT, 0, {2, v1::AXIS_LOCAL}}},
                                   target_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ToString(made->opts),
            "SPLIT(0, 2, UPCAST); SPLIT(1, 4, UPCAST, dim 1); SPLIT(2, 2, REDUCE, top); SPLIT(0, 2, LOOP); THREAD(0)");
}

// Lanes that no value has together may be of one dimension, as softmax has them.
TEST_F(RequestedTest, LanesApartShareADimension) {
  EXPECT_TRUE(
      ApplyRequested(graph_, Centred(8, 64), Requests("SPLIT(2, 16, UNROLL); SPLIT(1, 16, UPCAST)"), target_).ok());
}

// LOCAL alone takes such a loop, by a number behind all others.
TEST_F(RequestedTest, CopiesInALoopThatASwapBroughtOutside) {
  const char* text = "SPLIT(2, 64, REDUCE); SWAP(1, 2); LOCAL(3, 1); THREAD(0)";
  const auto made = ApplyRequested(graph_, Product(64, 256, 256), Requests(text), target_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ToString(made->opts), text);
  EXPECT_EQ(LocalBytes(made->sink), 4 * (256 + 64 * 256));  // a row of accumulators, and 64 rows of the operand
}

// The loops around the copy are those of the REDUCE that is left, not of the one that was brought outside.
TEST_F(RequestedTest, CopiesBesideALoopThatASwapBroughtOutside) {
  const char* text = "SWAP(1, 3); LOCAL(0, 1); THREAD(0)";
  const auto made = ApplyRequested(graph_, ProductAndSums(64, 32, 16, 8), Requests(text), target_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ToString(made->opts), text);
  EXPECT_EQ(LocalBytes(made->sink), 4 * (32 + 16 * 32));  // a row of accumulators, and the whole operand
}

TEST_F(RequestedTest, IllegalSchedulesOfAProduct) {
  struct Case {
    const char* opts;
    const char* what;
  };
  for (const Case& row : {
           Case{"SPLIT(3, 2, UPCAST)", "OptOp 0 (SPLIT of axis 3): the kernel has axes 0 to 2"},
           Case{"SWAP(0, 1); SPLIT(0, 3, UPCAST)",
                "OptOp 1 (SPLIT of axis 0): a factor of 3; it must be a divisor of "
                "the axis's 2048"},
           Case{"SPLIT(0, 0, UPCAST)", "a factor of 0"},
           Case{"SPLIT(0, -2, UPCAST)", "a factor of -2"},
           Case{"SPLIT(0, 2, UNROLL)", "an output axis takes UPCAST"},
           Case{"SPLIT(2, 2, UPCAST)", "a reduced axis takes UNROLL"},
           Case{"SPLIT(0, 4, UPCAST); SPLIT(1, 4, UPCAST)",
                "lane dimension 0 is taken by other lanes of the same values; "
                "1 is free"},
           Case{"SPLIT(2, 4, UNROLL); SPLIT(2, 4, UNROLL)", "lane dimension 0 is taken"},
           Case{"SPLIT(0, 4, UPCAST, dim 16)", "there are 0 to 15"},
           Case{"SPLIT(0, 2048, UPCAST)",
                "lanes too wide: a value takes 128 vector registers; this target has 32, and a "
                "value may take at most 64"},
           Case{"SPLIT(0, 8, UPCAST); SPLIT(1, 128, UPCAST, dim 1)",
                "OptOp 1 (SPLIT of axis 1): too many registers: the accumulators of a REDUCE take 64 vector registers "
                "of 64 bytes; this target has 32"},
           Case{"PADTO(0, 0)", "a multiple of 0; it is from 1 to 4096"},
           Case{"PADTO(0, 5000)", "a multiple of 5000"},
           Case{"SWAP(0, 2)", "too much local memory for its accumulators: a kernel may have 1048576 bytes"},
           Case{"SWAP(1, 2); SWAP(1, 2)", "OptOp 1 (SWAP of axis 1): it wants (axis), from 0 to 1"},
           Case{"SPLIT(2, 64, REDUCE); SWAP(2, 1); SPLIT(0, 4, UPCAST)",
                "OptOp 2 (SPLIT of axis 0): a LOCAL copy is made inside this loop"},
           Case{"SWAP(0, 7)", "it wants (axis), from 0 to 2"},
           Case{"FUSE(1)", "no loop of the output inside it"},
           Case{"FUSE(2)", "no loop of the output inside it"},
           Case{"LOCAL(2, 0)", "this one is reduced"},
           Case{"SPLIT(2, 64, REDUCE); SWAP(1, 2); SPLIT(3, 2, REDUCE)", "the kernel has axes 0 to 2"},
           Case{"SPLIT(2, 64, REDUCE); SWAP(1, 2); LOCAL(4, 1)", "the kernel has axes 0 to 3"},
           Case{"SPLIT(2, 64, REDUCE); SWAP(1, 2); SWAP(3, 0)", "the kernel has axes 0 to 2"},
           Case{"LOCAL(0, 4)", "it wants (operand), from 0 to 1"},
           Case{"LOCAL(0, 2)", "operand 0 cannot be copied in words"},
           Case{"LOCAL(0, 1)", "too much local memory: more than 1048576 bytes; a kernel may have 1048576"},
           Case{"SPLIT(1, 64, LOOP); SWAP(0, 2); LOCAL(2, 0); LOCAL(2, 0)", "operand 0 is a copy already"},
           Case{"SPLIT(1, 64, LOOP); SWAP(0, 1); LOCAL(0, 1); SPLIT(0, 4, UPCAST)",
                "OptOp 3 (SPLIT of axis 0): a LOCAL copy is made inside this loop"},
           Case{"THREAD(1)", "threads share the outermost loop"},
           Case{"THREAD(0); SWAP(0, 1)", "OptOp 1 (SWAP of axis 0): it stands behind THREAD"},
           Case{"THREAD(0); THREAD(0)", "it stands behind THREAD"},
       }) {
    SCOPED_TRACE(row.opts);
    ExpectRefused(Product(2048, 2048, 512), Requests(row.opts), row.what);
  }
}

TEST_F(RequestedTest, IllegalSchedulesOfOthers) {
  ExpectRefused(Centred(8, 64), Requests("LOCAL(0, 0)"), "reads nothing again");
  ExpectRefused(Centred(8, 64), Requests("SPLIT(2, 16, UNROLL); SPLIT(0, 4, UPCAST)"), "lane dimension 0 is taken");
  ExpectRefused(Product(3, 3, 2000), Requests("PADTO(0, 4096)"), "padding makes the kernel 1365.33 times as long");
  for (const char* opts : {"THREAD(0)", "SPLIT(0, 4, UPCAST)", "SPLIT(1, 4, UPCAST)", "SWAP(0, 1)"})
    ExpectRefused(LastRow(8, 8), Requests(opts), "two iterations of the output's loops may store to the same place");
  UOp* one = graph_.Make(
      Op::SINK, {graph_.Make(Op::STORE, {At(Param(0, 1), Idx(graph_, 0)), ConstNumber(graph_, DType::kFloat32, 1)})});
  ExpectRefused(one, Requests("THREAD(0)"), "the kernel has no loops");
}

// Of a GPU, LOCAL and GROUP_REDUCE are work items.
TEST_F(RequestedTest, SchedulesOfGpus) {
  target_.set_kind(v1::Target::NVPTX);
  const char* text =
      "SPLIT(0, 8, UPCAST); SPLIT(1, 4, UPCAST, dim 1); SPLIT(0, 16, LOCAL); SPLIT(2, 16, LOCAL); "
      "SPLIT(4, 4, GROUP_REDUCE)";
  const auto made = ApplyRequested(graph_, Product(2048, 2048, 512), Requests(text), target_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ToString(made->opts), text);  // and no THREAD
  // As softmax has it: the loop that walks a row again is walked by the items that reduced it.
  EXPECT_TRUE(
      ApplyRequested(graph_, Centred(8, 4096), Requests("SPLIT(2, 1024, GROUP_REDUCE); SPLIT(1, 1024, LOCAL)"), target_)
          .ok());
  ExpectRefused(Product(2048, 2048, 512), Requests("SPLIT(0, 64, LOCAL); SPLIT(2, 32, LOCAL)"),
                "OptOp 1 (SPLIT of axis 2): too many work items in a group: 32 x 64; it may have 1024");
  ExpectRefused(Product(2048, 2048, 512),
                Requests("SPLIT(0, 2, LOCAL); SPLIT(0, 2, LOCAL); SPLIT(0, 2, LOCAL); SPLIT(0, 2, LOCAL)"),
                "OptOp 3 (SPLIT of axis 0): LOCAL and GROUP_REDUCE axes of 4 kinds");
  ExpectRefused(Product(2048, 2048, 512), Requests("SPLIT(0, 48, LOCAL)"), "a factor of 48; it must be a divisor");
  ExpectRefused(Product(2048, 2048, 512), Requests("SPLIT(2, 4, LOCAL)"), "a reduced axis takes UNROLL");
  ExpectRefused(Product(2048, 2048, 512), Requests("SPLIT(0, 4, GROUP_REDUCE)"), "an output axis takes UPCAST");
  ExpectRefused(Product(2048, 2048, 512), Requests("SWAP(0, 2)"), "work items have none");
  ExpectRefused(Product(2048, 2048, 512), Requests("THREAD(0)"), "threads are a processor's");
  ExpectRefused(LastRow(8, 8), Requests("SPLIT(0, 4, LOCAL)"), "may store to the same place");
  const auto copies = ApplyRequested(graph_, Product(8, 8, 8), Requests("LOCAL(0, 1)"), target_);
  EXPECT_EQ(DetailOf(copies.status())->code(), v1::UNSUPPORTED_OP) << copies.status();
}

TEST_F(RequestedTest, Tiles) {
  target_.set_kind(v1::Target::NVPTX);
  target_.set_arch("sm_80");
  UOp* kernel = Halves(70, 50, 30);
  for (const char* text : {"TC(0, 1, MMA_64X64)", "TC(1, 0, MMA_32X32)"}) {
    const auto made = ApplyRequested(graph_, kernel, Requests(text), target_);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(ToString(made->opts), text);
    EXPECT_TRUE(HasGroupProduct(made->sink));
  }
  ExpectRefused(kernel, Requests("TC(0, 0, MMA_64X64)"), "rows and columns are two axes of the output");
  ExpectRefused(kernel, Requests("TC(0, 2, MMA_64X64)"), "rows and columns are two axes of the output");
  ExpectRefused(kernel, {{v1::OptOp::TC, 0, {99, 1}}}, "tile 99; there are tiles 0 to");
  ExpectRefused(kernel, {{v1::OptOp::TC, 0, {1, 9}}}, "its columns are an axis from 0 to 2");
  ExpectRefused(kernel, {{v1::OptOp::TC, 0, {}}}, "it wants (tile, axis of columns)");
  ExpectRefused(kernel, Requests("TC(0, 1, MMA_64X64); SPLIT(0, 2, LOCAL)"), "behind TC, which is the last");
  ExpectRefused(kernel, Requests("SPLIT(0, 2, LOCAL); TC(0, 1, MMA_64X64)"), "no other axis may be such");
  ExpectRefused(Product(8, 8, 8), Requests("TC(0, 1, MMA_64X64)"), "sm_80 has no MMA_64X64 of float32");
  EXPECT_TRUE(ApplyRequested(graph_, Product(8, 8, 8), Requests("TC(0, 1, FMA_64X64)"), target_).ok());
  ExpectRefused(kernel, Requests("TC(0, 1, FMA_64X64)"), "sm_80 has no FMA_64X64 of float16");
  UOp *i = Loop(64), *j = Loop(64), *r = Loop(64, AxisType::kReduce), *deep = r;
  for (int k = 0; k < 100'000; ++k) deep = graph_.Make(Op::FLOORMOD, {deep, Idx(graph_, 200'000 - k)});
  UOp* product = Mul(graph_, Load(Param(1, 4096), Row(i, 64, deep)), Load(Param(2, 4096), Row(r, 64, j)));
  UOp* sum = graph_.Make(Op::REDUCE, {product, r}, ReduceArg{Op::ADD, {}});
  ExpectRefused(Kernel(At(Param(0, 4096), Row(i, 64, j)), sum, {i, j}), Requests("TC(0, 1, FMA_64X64)"),
                "of one of a tile there are at most 1024");
  ExpectRefused(Centred(8, 8), Requests("TC(0, 1, MMA_64X64)"), "adds up products along axes");
  target_.set_kind(v1::Target::AMDGPU);
  ExpectRefused(kernel, Requests("TC(0, 1, MMA_64X64)"), "has no MMA_64X64 of float16");
}

TEST_F(RequestedTest, IllegalForms) {
  UOp* kernel = Product(8, 8, 8);
  ExpectRefused(kernel, {{17, 0, {}}}, "OptOp 0 (? of axis 0): no such transform");
  ExpectRefused(kernel, {{v1::OptOp::SPLIT, 0, {2}}}, "it wants (factor, target, top?, dimension?)");
  ExpectRefused(kernel, {{v1::OptOp::SPLIT, 0, {2, 7, 0, 0, 0}}}, "it wants (factor");
  ExpectRefused(kernel, {{v1::OptOp::SPLIT, 0, {2, 99}}}, "a target AxisType of 0");
  ExpectRefused(kernel, {{v1::OptOp::SPLIT, -1, {2, v1::AXIS_UPCAST}}}, "axes 0 to 2");
  ExpectRefused(kernel, {{v1::OptOp::SPLIT, int64_t{1} << 40, {2, v1::AXIS_UPCAST}}}, "axes 0 to 2");
  ExpectRefused(kernel, {{v1::OptOp::PADTO, 0, {}}}, "it wants (multiple, clamp?)");
  ExpectRefused(kernel, {{v1::OptOp::SWAP, 0, {0, 1}}}, "it wants (axis)");
  ExpectRefused(kernel, {{v1::OptOp::FUSE, 0, {1}}}, "it wants ()");
  ExpectRefused(kernel, {{v1::OptOp::LOCAL, 0, {}}}, "it wants (operand)");
  ExpectRefused(kernel, std::vector<OptArg>(129, {v1::OptOp::NOLOCALS, 0, {}}),
                "129 OptOps; a kernel takes at most 128");
  const auto tensor_cores = ApplyRequested(graph_, kernel, {{v1::OptOp::TC, 0, {0, 0, 1}}}, target_);
  EXPECT_EQ(DetailOf(tensor_cores.status())->code(), v1::UNSUPPORTED_OP) << tensor_cores.status();
}

}  // namespace
}  // namespace kiln::compiler
