#include "base/dtype_names.h"
#include "base/op_names.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(OpNames, EveryOpThereAndBack) {
  const auto* ops = v1::Op_descriptor();
  for (int i = 0; i < ops->value_count(); ++i) {
    const auto op = static_cast<v1::Op>(ops->value(i)->number());
    if (op == v1::OP_UNSPECIFIED) continue;
    EXPECT_EQ(OpName(op), ops->value(i)->name());
    EXPECT_EQ(ParseOp(OpName(op)), op);
  }
}

TEST(OpNames, NoOp) {
  EXPECT_EQ(OpName(v1::OP_UNSPECIFIED), "");
  EXPECT_EQ(OpName(static_cast<v1::Op>(49)), "");
  EXPECT_EQ(OpName(static_cast<v1::Op>(-1)), "");
  EXPECT_EQ(OpName(static_cast<v1::Op>(1 << 30)), "");
  EXPECT_EQ(ParseOp("OP_UNSPECIFIED"), std::nullopt);
  EXPECT_EQ(ParseOp("add"), std::nullopt);
}

TEST(DTypeNames, EveryDTypeThereAndBack) {
  for (int i = 1; i < v1::DType_ARRAYSIZE; ++i) {
    const auto dtype = static_cast<v1::DType>(i);
    EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype) << v1::DType_Name(dtype);
  }
  EXPECT_EQ(DTypeName(v1::FLOAT8_E4M3_FNUZ), "float8_e4m3_fnuz");
  EXPECT_EQ(RowOf(v1::BFLOAT16).bits, 16);
  EXPECT_EQ(RowOf(v1::INT64).kind, DTypeClass::kSigned);
}

TEST(DTypeNames, NoDType) {
  EXPECT_EQ(DTypeName(v1::DTYPE_UNSPECIFIED), "");
  EXPECT_EQ(DTypeName(static_cast<v1::DType>(-3)), "");
  EXPECT_EQ(DTypeName(static_cast<v1::DType>(99)), "");
  EXPECT_EQ(ParseDType(""), std::nullopt);
}

}  // namespace
}  // namespace kiln
