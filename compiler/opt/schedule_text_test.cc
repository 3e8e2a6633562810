#include "compiler/opt/schedule_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/structure/group_product.h"

namespace kiln::compiler {
namespace {

OptOp Split(int axis, int64_t factor, AxisType target, bool top, int64_t dimension) {
  OptOp opt{OptOp::kSplit, axis, factor, target, dimension};
  opt.top = top;
  return opt;
}

OptOp PadTo(int axis, int64_t multiple, bool clamp) {
  OptOp opt{OptOp::kPadTo, axis, multiple};
  opt.clamp = clamp;
  return opt;
}

// Every kind, with and without each of its parts.
std::vector<OptOp> EveryKind() {
  return {
      Split(0, 16, AxisType::kUpcast, false, 0),
      Split(3, 4, AxisType::kUnroll, true, 2),
      Split(1, 2, AxisType::kLoop, true, 0),
      Split(12, 2, AxisType::kReduce, false, 0),
      PadTo(1, 8, false),
      PadTo(0, 4096, true),
      {OptOp::kSwap, 0, 2},
      {OptOp::kFuse, 1},
      {OptOp::kLocal, 2, 1},
      {OptOp::kThread, 0},
      {OptOp::kTensor, 0, 1, AxisType::kUpcast, TileNamed("MMA_64X64").value()},
  };
}

TEST(ScheduleText, SaysWhatEachDoes) {
  EXPECT_EQ(ToString(EveryKind()),
            "SPLIT(0, 16, UPCAST); SPLIT(3, 4, UNROLL, top, dim 2); SPLIT(1, 2, LOOP, top); SPLIT(12, 2, REDUCE); "
            "PADTO(1, 8); PADTO(0, 4096, clamp); SWAP(0, 2); FUSE(1); LOCAL(2, 1); THREAD(0); TC(0, 1, MMA_64X64)");
  EXPECT_EQ(ToString(std::vector<OptOp>()), "");
}

TEST(ScheduleText, ParsesBack) {
  const auto parsed = ParseSchedule(ToString(EveryKind()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, EveryKind());
  EXPECT_TRUE(ParseSchedule("")->empty());
  EXPECT_EQ(*ParseSchedule(" SWAP ( 0 ,1 ) ;THREAD(0)"),
            (std::vector<OptOp>{{OptOp::kSwap, 0, 1}, {OptOp::kThread, 0}}));
}

TEST(ScheduleText, AFaultNamesItsPlace) {
  struct Row {
    const char* text;
    const char* fault;
  };
  for (const Row& row : {
           Row{"SPLIT(0, 16, UPCAST); JUMP(1)",
               "column 23: expected one of SPLIT, PADTO, SWAP, FUSE, LOCAL, THREAD, TC"},
           Row{"SPLIT(0, 16)", "column 12: expected ','"},
           Row{"SPLIT(0, 16, SIDEWAYS)", "column 14: expected one of LOOP, REDUCE, UPCAST, UNROLL"},
           Row{"SPLIT(0, 16, UPCAST, clamp)", "column 22: expected top or dim"},
           Row{"SPLIT(0, x, UPCAST)", "column 10: expected a number"},
           Row{"SWAP(0, 1) THREAD(0)", "column 12: expected ';'"},
           Row{"SWAP(0, 1", "expected ')'"},
           Row{"THREAD(-1)", "column 8: expected an axis"},
           Row{"FUSE(0, 1)", "column 9: expected )"},
           Row{"SWAP(0, 99999999999999999999)", "column 9: expected a number"},
       }) {
    const auto parsed = ParseSchedule(row.text);
    ASSERT_FALSE(parsed.ok()) << row.text;
    EXPECT_EQ(DetailOf(parsed.status())->code(), v1::BAD_ARGUMENT);
    EXPECT_NE(parsed.status().message().find(row.fault), absl::string_view::npos) << parsed.status();
  }
}

TEST(ScheduleText, GoesOutAsOptOps) {
  EXPECT_EQ(ToRequest(Split(3, 4, AxisType::kUnroll, true, 2)),
            (OptArg{v1::OptOp::SPLIT, 3, {4, v1::AXIS_UNROLL, 1, 2}}));
  EXPECT_EQ(ToRequest(PadTo(0, 8, true)), (OptArg{v1::OptOp::PADTO, 0, {8, 1}}));
  EXPECT_EQ(ToRequest({OptOp::kFuse, 1}), (OptArg{v1::OptOp::FUSE, 1, {}}));
  EXPECT_EQ(ToRequest({OptOp::kLocal, 1, 0}), (OptArg{v1::OptOp::LOCAL, 1, {0}}));
  EXPECT_EQ(ToRequest({OptOp::kThread, 0}), (OptArg{v1::OptOp::SPLIT, 0, {0, v1::AXIS_THREAD}}));
}

}  // namespace
}  // namespace kiln::compiler
