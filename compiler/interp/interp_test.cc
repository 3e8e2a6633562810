#include "compiler/interp/interp.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

template <typename T>
HostTensor Tensor(DType dtype, Shape shape, const std::vector<T>& values) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}
HostTensor Int32(Shape shape, const std::vector<int32_t>& values) {
  return Tensor(DType::kInt32, std::move(shape), values);
}

template <typename T>
std::vector<T> Values(const HostTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

absl::StatusOr<InterpResult> RunText(const std::string& text, const HostTensors& arguments,
                                     const InterpOptions& options = {}) {
  const auto wire = ParseGraph(text);
  if (!wire.ok()) return wire.status();
  Graph graph;
  const auto root = FromWire(*wire, Limits(), graph);
  if (!root.ok()) return root.status();
  return Interpret(*root, arguments, options);
}

// p is int32 of shape (4), in slot 0: 10 20 30 40.
constexpr char kP[] = "0 CONST [] weakint 4\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=int32\n";
const HostTensors& Arguments() {
  static const HostTensors& arguments = *new HostTensors{{0, Int32({4}, {10, 20, 30, 40})}};
  return arguments;
}

using Ints = std::vector<int32_t>;

// The first result of a program over p.
Ints First(const std::string& lines) {
  const auto result = RunText(kP + lines, Arguments());
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() && !result->results.empty() ? Values<int32_t>(result->results[0]) : Ints{};
}

TEST(Interp, ElementwiseAndReduce) {
  EXPECT_EQ(First("3 ADD [2, 0]\n4 TUPLE [3]"), (Ints{14, 24, 34, 44}));
  EXPECT_EQ(First("3 REDUCE [2] ADD axes=(0)\n4 TUPLE [3]"), Ints{100});
  EXPECT_EQ(First("3 CONST [] weakint 0\n4 STACK [3]\n5 SHRINK [2, 4, 4]\n6 REDUCE [5] MAX axes=(0)\n7 TUPLE [6]"),
            Ints{INT32_MIN});
}

TEST(Interp, PadWithoutFillIsInvalid) {
  const std::string padded = "3 CONST [] weakint 1\n4 STACK [3]\n5 CONST [] weakint 6\n6 STACK [5]\n7 PAD [2, 4, 6]\n";
  // Materialised it is 0, also where a constant was added.
  EXPECT_EQ(First(padded + "8 TUPLE [7]"), (Ints{0, 10, 20, 30, 40, 0}));
  EXPECT_EQ(First(padded + "8 ADD [7, 3]\n9 TUPLE [8]"), (Ints{0, 11, 21, 31, 41, 0}));
  // A reduction skips it; a LOAD makes it a 0 of its own.
  EXPECT_EQ(First(padded + "8 CONST [] weakint -50\n9 ADD [7, 8]\n10 REDUCE [9] MAX axes=(0)\n11 TUPLE [10]"),
            Ints{-10});
  EXPECT_EQ(
      First(padded + "8 CONST [] weakint -50\n9 LOAD [7]\n10 ADD [9, 8]\n11 REDUCE [10] MUL axes=(0)\n12 TUPLE [11]"),
      Ints{-50 * -40 * -30 * -20 * -10 * -50});
  // A choice is valid where the branch it takes is.
  EXPECT_EQ(First(padded +
                  "8 CONST [] int32 7\n9 CONST [] int32 15\n10 CONST [] bool true\n11 WHERE [10, 8, 7]\n12 TUPLE [11]"),
            (Ints{7, 7, 7, 7, 7, 7}));
}

TEST(Interp, PadWithFillIsAValue) {
  EXPECT_EQ(First("3 CONST [] weakint 1\n4 STACK [3]\n5 CONST [] weakint 6\n6 STACK [5]\n7 PAD [2, 4, 6] fill=int32 "
                  "5\n8 ADD [7, 3]\n9 TUPLE [8]"),
            (Ints{6, 11, 21, 31, 41, 6}));
}

TEST(Interp, IndexOutOfRangeReadsZero) {
  EXPECT_EQ(First("3 CONST [] int64 -1\n4 CONST [] int64 2\n5 CONST [] int64 4\n6 STACK [3, 4, 5]\n7 INDEX [2, 6]\n8 "
                  "TUPLE [7]"),
            (Ints{0, 30, 0}));
  // It is a valid 0, not Invalid.
  EXPECT_EQ(First("3 CONST [] int64 9\n4 INDEX [2, 3]\n5 CONST [] int32 1\n6 ADD [4, 5]\n7 TUPLE [6]"), Ints{1});
  EXPECT_EQ(First("3 CONST [] int64 invalid\n4 INDEX [2, 3]\n5 CONST [] int32 1\n6 ADD [4, 5]\n7 TUPLE [6]"), Ints{1});
}

TEST(Interp, IndicesAddTheirOwnAxes) {
  const auto result =
      RunText(std::string(kP) +
                  "3 CONST [] weakint 2\n4 STACK [3, 3]\n5 RESHAPE [2, 4]\n6 CONST [] int32 1\n7 CONST [] int32 0\n"
                  "8 STACK [6, 7, 6]\n9 INDEX [5, 8]\n10 INDEX [5, 6, 8]\n11 TUPLE [9, 10]",
              Arguments());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->results[0].shape, Shape({3, 2}));
  EXPECT_EQ(Values<int32_t>(result->results[0]), (Ints{30, 40, 10, 20, 30, 40}));
  EXPECT_EQ(Values<int32_t>(result->results[1]), (Ints{40, 30, 40}));
}

TEST(Interp, BitcastIsLittleEndian) {
  const auto result =
      RunText(std::string(kP) + "3 BITCAST [2] to=uint8\n4 BITCAST [3] to=int64\n5 TUPLE [3, 4]", Arguments());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->results[0].bytes.substr(0, 8), std::string("\x0a\0\0\0\x14\0\0\0", 8));
  EXPECT_EQ(Values<int64_t>(result->results[1]),
            (std::vector<int64_t>{10 + (int64_t{20} << 32), 30 + (int64_t{40} << 32)}));
}

TEST(Interp, AnyOtherByteOfABoolIsTrue) {
  const auto result =
      RunText("0 CONST [] weakint 3\n1 STACK [0]\n2 PARAM [1] slot=0 dtype=bool\n3 CAST [2] to=uint8\n4 TUPLE [2, 3]",
              {{0, Tensor<uint8_t>(DType::kBool, {3}, {0, 1, 77})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Values<uint8_t>(result->results[0]), (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(Values<uint8_t>(result->results[1]), (std::vector<uint8_t>{0, 1, 1}));
}

TEST(Interp, NarrowFloatsAccumulateInFloat32) {
  // 2048 + 1 + 1 is 2048 if each sum is rounded to float16.
  const auto result = RunText(
      "0 CONST [] float16 2048.0\n1 CONST [] float16 1.0\n2 STACK [0, 1, 1]\n3 REDUCE [2] ADD axes=(0)\n4 TUPLE [3]",
      {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Values<uint16_t>(result->results[0]), std::vector<uint16_t>{0x6801});  // 2050
}

TEST(Interp, LoadTakesTheAlternativeWhereTheGateIsFalse) {
  EXPECT_EQ(First("3 CONST [] int32 25\n4 CMPLT [2, 3]\n5 LOAD [2, 3, 4]\n6 TUPLE [5]"), (Ints{10, 20, 25, 25}));
}

// -- Memory

TEST(Interp, ReadsSeeTheStateBeforeTheStores) {
  const auto result =
      RunText(std::string(kP) +
                  "3 CONST [] int32 1\n4 STORE [2, 3]\n5 AFTER [2, 4]\n6 ADD [2, 3]\n7 ADD [5, 3]\n8 TUPLE [6, 7, 5]",
              Arguments());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Values<int32_t>(result->results[0]), (Ints{11, 21, 31, 41}));
  EXPECT_EQ(Values<int32_t>(result->results[1]), (Ints{2, 2, 2, 2}));
  EXPECT_EQ(Values<int32_t>(result->results[2]), (Ints{1, 1, 1, 1}));
  EXPECT_EQ(Values<int32_t>(result->written.at(0)), (Ints{1, 1, 1, 1}));
}

TEST(Interp, EachAfterShowsItsOwnState) {
  const auto result = RunText(
      std::string(kP) +
          "3 CONST [] int32 1\n4 STORE [2, 3]\n5 AFTER [2, 4]\n6 CONST [] int32 2\n7 STORE [5, 6]\n8 AFTER [2, 7]\n"
          "9 NEG [5]\n10 NEG [8]\n11 TUPLE [9, 10]",
      Arguments());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Values<int32_t>(result->results[0]), (Ints{-1, -1, -1, -1}));
  EXPECT_EQ(Values<int32_t>(result->results[1]), (Ints{-2, -2, -2, -2}));
}

TEST(Interp, AfterSeesAllThatItsStoreCameAfter) {
  // The second STORE's value reads the first one's: so the first has happened.
  const auto result =
      RunText(std::string(kP) +
                  "3 CONST [] weakint 0\n4 STACK [3]\n5 CONST [] weakint 1\n6 STACK [5]\n7 SHRINK [2, 4, "
                  "6]\n8 CONST [] int32 7\n"
                  "9 STORE [7, 8]\n10 AFTER [7, 9]\n11 SHRINK [2, 6, 6]\n12 STORE [11, 10]\n13 AFTER [2, "
                  "12]\n14 NEG [13]\n15 TUPLE [14]",
              Arguments());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Values<int32_t>(result->results[0]), (Ints{-7, -7, -30, -40}));
}

TEST(Interp, SelfOverlappingAssignReadsFirst) {
  EXPECT_EQ(First("3 FLIP [2] flip=(1)\n4 STORE [2, 3]\n5 AFTER [2, 4]\n6 TUPLE [5]"), (Ints{40, 30, 20, 10}));
}

TEST(Interp, StoresThroughMovementGatesAndPoison) {
  EXPECT_EQ(First("3 FLIP [2] flip=(1)\n4 CONST [] int64 0\n5 INDEX [3, 4]\n6 CONST [] int32 1\n7 STORE [5, 6]\n8 "
                  "AFTER [2, 7]\n9 TUPLE [8]"),
            (Ints{10, 20, 30, 1}));
  // Out of range writes nothing.
  EXPECT_EQ(
      First("3 CONST [] int64 4\n4 INDEX [2, 3]\n5 CONST [] int32 1\n6 STORE [4, 5]\n7 AFTER [2, 6]\n8 TUPLE [7]"),
      (Ints{10, 20, 30, 40}));
  EXPECT_EQ(First("3 CONST [] int32 25\n4 CMPLT [2, 3]\n5 STORE [2, 3, 4]\n6 AFTER [2, 5]\n7 TUPLE [6]"),
            (Ints{25, 25, 30, 40}));
  // An Invalid element is not written.
  EXPECT_EQ(First("3 CONST [] int32 25\n4 CMPLT [2, 3]\n5 CONST [] int32 invalid\n6 WHERE [4, 3, 5]\n7 STORE [2, 6]\n8 "
                  "AFTER [2, 7]\n9 TUPLE [8]"),
            (Ints{25, 25, 30, 40}));
}

// -- What it refuses

v1::ErrorCode CodeOf(const absl::StatusOr<InterpResult>& result) {
  EXPECT_FALSE(result.ok());
  const auto detail = DetailOf(result.status());
  return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
}

TEST(Interp, ArgumentsMustFit) {
  const std::string program = std::string(kP) + "3 NEG [2]\n4 TUPLE [3]";
  EXPECT_EQ(CodeOf(RunText(program, {})), v1::MISSING_ARGUMENT);
  EXPECT_EQ(CodeOf(RunText(program, {{0, Int32({3}, {1, 2, 3})}})), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_EQ(CodeOf(RunText(program, {{0, Tensor<float>(DType::kFloat32, {4}, {1, 2, 3, 4})}})),
            v1::BUFFER_DTYPE_MISMATCH);
}

TEST(Interp, RootsAndTargets) {
  EXPECT_EQ(CodeOf(RunText(std::string(kP) + "3 NEG [2]", Arguments())), v1::BAD_ROOT);
  EXPECT_EQ(CodeOf(RunText(std::string(kP) + "3 NEG [2]\n4 STORE [3, 2]\n5 SINK [4]", Arguments())), v1::BAD_ARGUMENT);
  EXPECT_EQ(CodeOf(RunText(std::string(kP) + "3 PARAM [1] slot=0 dtype=float32\n4 TUPLE [2, 3]", Arguments())),
            v1::BAD_ARGUMENT);
}

TEST(Interp, MemoryIsLimited) {
  std::string program =
      "0 CONST [] weakint 1\n1 STACK [0, 0]\n2 CONST [] weakint 100000\n3 STACK [2, 2]\n4 CONST [] int8 1\n5 RESHAPE "
      "[4, 1]\n"
      "6 EXPAND [5, 3]\n7 TUPLE [6]";
  EXPECT_EQ(CodeOf(RunText(program, {})), v1::OUT_OF_MEMORY);
  InterpOptions options;
  options.max_bytes = 30;
  EXPECT_EQ(CodeOf(RunText(std::string(kP) + "3 NEG [2]\n4 TUPLE [3]", Arguments(), options)), v1::OUT_OF_MEMORY);
}

TEST(Interp, LetsGoOfValuesAfterTheirLastUse) {
  std::string program = kP;
  for (int i = 3; i < 1003; ++i) program += std::to_string(i) + " NEG [" + std::to_string(i - 1) + "]\n";
  InterpOptions options;
  options.max_bytes = 300;  // a thousand tensors of 36 bytes would not fit
  const auto result = RunText(program + "1003 TUPLE [1002]", Arguments(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Values<int32_t>(result->results[0]), (Ints{10, 20, 30, 40}));
}

}  // namespace
}  // namespace kiln::compiler
