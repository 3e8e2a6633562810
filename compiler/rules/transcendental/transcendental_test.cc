// The corners of EXP2, LOG2, SIN and POW, op by op in the interpreter. How close
// compiled code comes all over the range is for tests/bench/accuracy_bench.cc.
#include "compiler/rules/transcendental/transcendental.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double Evaluate(UOp* root) {
  absl::flat_hash_map<UOp*, uint64_t> values;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::CONST) {
      values[uop] = uop->arg_as<ConstArg>().bits;
      continue;
    }
    std::vector<uint64_t> operands;
    for (UOp* source : uop->src()) operands.push_back(values.at(source));
    const DType from = uop->op() == Op::WHERE ? uop->dtype() : uop->src(0)->dtype();
    values[uop] = EvalScalar(uop->op(), from, uop->dtype(), operands);
  }
  return FloatValue(root->dtype(), values.at(root));
}

double Of(Formula (*f)(Formula), DType dtype, double x) {
  Graph graph;
  return Evaluate(f({graph, ConstNumber(graph, dtype, x)}).uop());
}

double PowOf(DType dtype, double x, double y) {
  Graph graph;
  return Evaluate(Pow({graph, ConstNumber(graph, dtype, x)}, {graph, ConstNumber(graph, dtype, y)}).uop());
}

// Also tells -0 from 0.
void ExpectSame(double got, double want, double x, double y = 0) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << got << " of " << x << " " << y;
  } else {
    EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(want))
        << got << " for " << want << " of " << x << " " << y;
  }
}

struct Corner {
  double x, value;
};

TEST(Transcendental, Exp2) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const Corner& c :
         {Corner{0, 1}, Corner{-0.0, 1}, Corner{1, 2}, Corner{-1, 0.5}, Corner{10, 1024}, Corner{-100, 0x1p-100},
          Corner{kInf, kInf}, Corner{-kInf, 0}, Corner{kNan, kNan}, Corner{1e30, kInf}, Corner{-1e30, 0}}) {
      ExpectSame(Of(Exp2, dtype, c.x), c.value, c.x);
    }
  }
  for (const Corner& c : {Corner{127, 0x1p127}, Corner{128, kInf}, Corner{-126, 0x1p-126}, Corner{-149, 0x1p-149},
                          Corner{-150, 0}, Corner{-149.5, 0x1p-149}, Corner{-127, 0x1p-127}}) {
    ExpectSame(Of(Exp2, DType::kFloat32, c.x), c.value, c.x);
  }
  for (const Corner& c : {Corner{1023, 0x1p1023}, Corner{1024, kInf}, Corner{-1022, 0x1p-1022},
                          Corner{-1074, 0x1p-1074}, Corner{-1075, 0}, Corner{-1060, 0x1p-1060}}) {
    ExpectSame(Of(Exp2, DType::kFloat64, c.x), c.value, c.x);
  }
}

TEST(Transcendental, Log2) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const Corner& c : {Corner{1, 0}, Corner{2, 1}, Corner{0.5, -1}, Corner{0x1p100, 100}, Corner{0x1p-149, -149},
                            Corner{0, -kInf}, Corner{-0.0, -kInf}, Corner{-1, kNan}, Corner{-0x1p-149, kNan},
                            Corner{kInf, kInf}, Corner{-kInf, kNan}, Corner{kNan, kNan}}) {
      ExpectSame(Of(Log2, dtype, c.x), c.value, c.x);
    }
  }
  ExpectSame(Of(Log2, DType::kFloat64, 0x1p-1074), -1074, 0x1p-1074);
}

TEST(Transcendental, Sin) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const Corner& c : {Corner{0, 0}, Corner{-0.0, -0.0}, Corner{0x1p-140, 0x1p-140}, Corner{-0x1p-149, -0x1p-149},
                            Corner{kInf, kNan}, Corner{-kInf, kNan}, Corner{kNan, kNan}}) {
      ExpectSame(Of(Sin, dtype, c.x), c.value, c.x);
    }
  }
  // Worst cases: the float32 and the float64 that are closest to multiples of
  // pi/2, and the greatest of both.
  for (double x : {0x1.921fb6p+0, 0x1.47d0fep+34, 0x1.fffffep+127, 0x1.6ac5b262ca1ffp+849, 0x1.fffffffffffffp+1023,
                   1e22, 0.75, 0.7499999}) {
    const double want = std::sin(x);
    const double ulp = std::ldexp(1, std::ilogb(want) - 52);
    EXPECT_NEAR(Of(Sin, DType::kFloat64, x), want, 3 * ulp) << x;
    EXPECT_NEAR(Of(Sin, DType::kFloat64, -x), -want, 3 * ulp) << x;
    if (x != static_cast<float>(x)) continue;
    EXPECT_NEAR(Of(Sin, DType::kFloat32, x), want, std::ldexp(ulp, 30)) << x;
  }
}

TEST(Transcendental, PowAsC99) {
  const double edges[] = {0,    1,     2,    3,    0.5, 1.5, 4,    5,   1e3, 1e5,  1e9,      16777216, 16777217,
                          1e30, 1e-30, kInf, kNan, 7,   2.5, 0.25, 0.1, 149, 1023, 0x1p-149, 0.9999,   1.0001};
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const double bound = dtype == DType::kFloat32 ? 0x1p-21 : 0x1p-48;
    for (double a : edges) {
      for (double b : edges) {
        for (int signs = 0; signs < 4; ++signs) {
          const double x = FloatValue(dtype, FloatBits(dtype, signs & 1 ? -a : a));
          const double y = FloatValue(dtype, FloatBits(dtype, signs & 2 ? -b : b));
          const double want = FloatValue(dtype, FloatBits(dtype, std::pow(x, y)));
          const double got = PowOf(dtype, x, y);
          if (want == 0 || std::isinf(want) || std::isnan(want)) {
            ExpectSame(got, want, x, y);
          } else {
            EXPECT_NEAR(got, want, std::fabs(want) * bound + (dtype == DType::kFloat32 ? 0x1p-149 : 0x1p-1074))
                << x << " " << y;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln::compiler
