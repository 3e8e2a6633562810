#include "compiler/rules/ssimplify.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

class SsimplifyTest : public ::testing::Test {
 protected:
  UOp* Variable(const char* name, int64_t min, int64_t max) {
    BufferArg arg;
    arg.slot = next_slot_++;
    arg.dtype = kIndexType;
    arg.addrspace = AddrSpace::kAlu;
    arg.name = name;
    arg.min = min;
    arg.max = max;
    return graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg);
  }
  UOp* Div(UOp* a, UOp* b) { return graph_.Make(Op::FLOORDIV, {a, b}); }
  UOp* Mod(UOp* a, UOp* b) { return graph_.Make(Op::FLOORMOD, {a, b}); }
  UOp* N(int64_t value) { return Idx(graph_, value); }

  Graph graph_;
  uint32_t next_slot_ = 0;
  UOp* n_ = Variable("n", 1, 10);
  UOp* m_ = Variable("m", 1, 6);
};

TEST_F(SsimplifyTest, SumsOfProductsMeet) {
  UOp* sum = Add(graph_, Mul(graph_, n_, N(3)), Mul(graph_, n_, N(-3)));
  EXPECT_EQ(Ssimplify(graph_, sum), N(0));
  EXPECT_EQ(Ssimplify(graph_, Div(Mul(graph_, n_, m_), m_)), n_);
  EXPECT_EQ(Ssimplify(graph_, Mod(Add(graph_, Mul(graph_, n_, m_), Add(graph_, m_, N(-1))), m_)),
            Ssimplify(graph_, Add(graph_, m_, N(-1))));
  EXPECT_EQ(Ssimplify(graph_, graph_.Make(Op::MAX, {Add(graph_, n_, N(10)), n_})), Add(graph_, n_, N(10)));
}

TEST_F(SsimplifyTest, ValuesAreKept) {
  UOp* const expressions[] = {Div(Add(graph_, Mul(graph_, n_, N(6)), m_), N(4)),
                              Mod(Add(graph_, Mul(graph_, n_, N(6)), m_), N(4)),
                              Div(Add(graph_, Mul(graph_, n_, m_), N(-1)), m_),
                              Mod(Add(graph_, n_, N(-7)), m_),
                              Div(Add(graph_, n_, N(-1)), n_),
                              graph_.Make(Op::MAX, {Mul(graph_, n_, n_), Add(graph_, Mul(graph_, n_, m_), N(-5))})};
  for (UOp* expression : expressions) {
    UOp* simple = Ssimplify(graph_, expression);
    for (int64_t n = 1; n <= 10; ++n) {
      for (int64_t m = 1; m <= 6; ++m) {
        EXPECT_EQ(*SymInfer(simple, {{"n", n}, {"m", m}}), *SymInfer(expression, {{"n", n}, {"m", m}}));
      }
    }
  }
}

TEST_F(SsimplifyTest, SymInferSaysWhatIsWrong) {
  EXPECT_EQ(*SymInfer(Add(graph_, Mul(graph_, n_, N(3)), m_), {{"n", 4}, {"m", 5}}), 17);
  EXPECT_EQ(DetailOf(SymInfer(n_, {}).status())->code(), v1::MISSING_ARGUMENT);
  EXPECT_EQ(DetailOf(SymInfer(n_, {{"n", 11}}).status())->code(), v1::BAD_ARGUMENT);
  UOp* range = graph_.Make(Op::RANGE, {N(4)}, RangeArg{0, AxisType::kLoop});
  EXPECT_EQ(DetailOf(SymInfer(range, {}).status())->code(), v1::UNSUPPORTED_OP);
}

}  // namespace
}  // namespace kiln::compiler
