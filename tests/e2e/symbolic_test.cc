// Symbolic sizes over the wire: one compile, a value of each variable with each
// call.
#include <gtest/gtest.h>

#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

// y = x + x for float32 [n, 2] in slot 0; n, 1 to 8, is slot 5.
constexpr char kTwice[] = R"(
  0 STACK []
  1 PARAM [0] slot=5 dtype=int32 space=ALU name="n" min=1 max=8
  2 CONST [] weakint 2
  3 STACK [1, 2]
  4 PARAM [3] slot=0 dtype=float32
  5 ADD [4, 4]
  6 TUPLE [5]
)";

class SymbolicTest : public ServerTest {
 protected:
  static v1::ExecuteRequest Request(int64_t n, v1::ResultMode mode) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kTwice);
    request.set_result_mode(mode);
    SetInteger(request, 5, n);
    return request;
  }
  static void SetInteger(v1::ExecuteRequest& request, uint32_t slot, int64_t value) {
    v1::Argument& argument = *request.add_arguments();
    argument.set_slot(slot);
    argument.set_integer(value);
  }
  static void AddRows(v1::ExecuteRequest& request, int64_t rows) {
    std::vector<float> values;
    for (int64_t i = 0; i < 2 * rows; ++i) values.push_back(static_cast<float>(i));
    AddFloats(request, 0, values);
    v1::Tensor& tensor = *request.mutable_arguments(request.arguments_size() - 1)->mutable_tensor();
    tensor.clear_shape();
    tensor.add_shape(rows);
    tensor.add_shape(2);
  }
};

TEST_F(SymbolicTest, TheSignatureSaysHowSizesFollow) {
  const auto compiled = Compile(*stubs_, GraphOf(kTwice));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const v1::Signature& signature = compiled->signature();
  ASSERT_EQ(signature.variables_size(), 1);
  EXPECT_EQ(signature.variables(0).name(), "n");
  EXPECT_EQ(signature.variables(0).slot(), 5u);
  EXPECT_EQ(signature.variables(0).min_value(), 1);
  EXPECT_EQ(signature.variables(0).max_value(), 8);
  ASSERT_EQ(signature.results_size(), 1);
  EXPECT_EQ(signature.results(0).shape(0), 8);
  EXPECT_EQ(signature.results(0).bytes(), 64u);
  ASSERT_EQ(signature.results(0).symbolic_size(), 1);
  EXPECT_EQ(signature.results(0).symbolic(0).axis(), 0u);
}

TEST_F(SymbolicTest, OneCompileServesAllValues) {
  bool first = true;
  for (const int64_t n : {3, 8, 1, 5}) {
    v1::ExecuteRequest request = Request(n, v1::RESULT_INLINE);
    AddRows(request, n);
    const auto response = Execute(*stubs_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->from_cache(), !first);
    first = false;
    const v1::Tensor& tensor = response->results(0).tensor();
    ASSERT_EQ(tensor.shape_size(), 2);
    EXPECT_EQ(tensor.shape(0), n);
    EXPECT_EQ(tensor.shape(1), 2);
    const std::vector<float> values = FloatsOf(tensor.data());
    ASSERT_EQ(values.size(), static_cast<size_t>(2 * n));
    for (int64_t i = 0; i < 2 * n; ++i) EXPECT_EQ(values[i], 2.0f * static_cast<float>(i));
  }
}

TEST_F(SymbolicTest, ResultsByHandleHaveTheirOwnSize) {
  v1::ExecuteRequest request = Request(3, v1::RESULT_HANDLES);
  AddRows(request, 3);
  const auto response = Execute(*stubs_, request);
  ASSERT_TRUE(response.ok()) << response.status();
  const v1::BufferDescription& buffer = response->results(0).buffer();
  EXPECT_EQ(buffer.bytes(), 24u);
  ASSERT_EQ(buffer.shape_size(), 2);
  EXPECT_EQ(buffer.shape(0), 3);
  // An untyped buffer may have bytes to spare.
  const uint64_t x = *AllocateBytes(*stubs_, 64);
  v1::ExecuteRequest with_room = Request(2, v1::RESULT_INLINE);
  AddBuffer(with_room, 0, x);
  const auto roomy = Execute(*stubs_, with_room);
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  EXPECT_EQ(FloatsOf(roomy->results(0).tensor().data()), (std::vector<float>{0, 0, 0, 0}));
}

TEST_F(SymbolicTest, BadValuesNameTheSlot) {
  const auto refuse = [&](const v1::ExecuteRequest& request, v1::ErrorCode code, uint32_t slot) {
    const auto response = Execute(*stubs_, request);
    ASSERT_FALSE(response.ok());
    const auto detail = DetailOf(response.status());
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->code(), code) << response.status();
    EXPECT_EQ(detail->slot(), slot) << response.status();
  };
  for (const int64_t n : {0, 9, -3}) {
    v1::ExecuteRequest request = Request(n, v1::RESULT_INLINE);
    AddRows(request, 1);
    refuse(request, v1::BAD_ARGUMENT, 5);
  }
  v1::ExecuteRequest other_size = Request(3, v1::RESULT_INLINE);
  AddRows(other_size, 4);
  refuse(other_size, v1::BUFFER_SIZE_MISMATCH, 0);

  v1::ExecuteRequest none = Request(3, v1::RESULT_INLINE);
  none.clear_arguments();
  AddRows(none, 3);
  refuse(none, v1::MISSING_ARGUMENT, 5);

  v1::ExecuteRequest twice = Request(3, v1::RESULT_INLINE);
  SetInteger(twice, 5, 3);
  AddRows(twice, 3);
  refuse(twice, v1::BAD_ARGUMENT, 5);

  v1::ExecuteRequest memory_for_variable;
  *memory_for_variable.mutable_graph() = GraphOf(kTwice);
  AddFloats(memory_for_variable, 5, {1});
  AddRows(memory_for_variable, 1);
  refuse(memory_for_variable, v1::BAD_ARGUMENT, 5);

  v1::ExecuteRequest integer_for_memory = Request(3, v1::RESULT_INLINE);
  SetInteger(integer_for_memory, 0, 3);
  refuse(integer_for_memory, v1::BAD_ARGUMENT, 0);

  const uint64_t x = *AllocateBytes(*stubs_, 16);
  v1::ExecuteRequest too_small = Request(3, v1::RESULT_INLINE);
  AddBuffer(too_small, 0, x);
  refuse(too_small, v1::BUFFER_SIZE_MISMATCH, 0);
}

}  // namespace
}  // namespace kiln::e2e
