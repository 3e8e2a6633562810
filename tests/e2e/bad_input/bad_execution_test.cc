// Executions whose program or arguments are wrong.
#include <functional>
#include <string>
#include <vector>

#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/bad_input/bad_input.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

// x += y for float32 [16] in slots 0 and 1.
constexpr char kAddTo[] = R"(
  0 CONST [] weakint 16
  1 PARAM : float32 [0] slot=0
  2 PARAM : float32 [0] slot=1
  3 ADD [1, 2]
  4 STORE [1, 3]
  5 TUPLE [4]
)";

constexpr char kExpand[] = R"(
  0 CONST [] weakint 1
  1 PARAM : uint8 [0] slot=0
  2 CONST [] weakint 4294967272
  3 EXPAND [1, 2]
  4 TUPLE [3]
)";

// An Execute of kAddOne, changed by `change`.
std::function<absl::Status(Stubs&)> Executing(std::function<void(v1::ExecuteRequest&)> change) {
  return [change](Stubs& stubs) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    AddFloats(request, 0, std::vector<float>(8, 1.0f));
    change(request);
    return Execute(stubs, request).status();
  };
}

TEST_F(BadInputTest, Executions) {
  const uint64_t small = *AllocateBytes(*stubs_, 31);
  const uint64_t floats = *AllocateFloats(*stubs_, 16);
  v1::AllocateRequest ints_request;
  ints_request.mutable_type()->set_dtype(v1::INT32);
  ints_request.mutable_type()->add_shape(8);
  const uint64_t ints = Allocate(*stubs_, ints_request)->handle();
  const auto with_buffer = [](uint64_t handle, uint64_t offset) {
    return Executing([=](v1::ExecuteRequest& request) {
      request.clear_arguments();
      AddBuffer(request, 0, handle, offset);
    });
  };
  const auto bad = StatusCode::kInvalidArgument;
  Check({
      {"missing argument", Executing([](auto& r) { r.clear_arguments(); }), bad, v1::MISSING_ARGUMENT, {}, 0},
      {"unknown slot", Executing([](auto& r) { AddFloats(r, 5, {1}); }), bad, v1::UNKNOWN_ARGUMENT, {}, 5},
      {"slot twice", Executing([](auto& r) { *r.add_arguments() = r.arguments(0); }), bad, v1::BAD_ARGUMENT, {}, 0},
      {"no value", Executing([](auto& r) { r.mutable_arguments(0)->clear_value(); }), bad, v1::BAD_ARGUMENT, {}, 0},
      {"unknown handle", with_buffer(4711, 0), StatusCode::kNotFound, v1::UNKNOWN_HANDLE, {}, 0, 4711},
      {"buffer too small", with_buffer(small, 0), bad, v1::BUFFER_SIZE_MISMATCH, {}, 0, small},
      {"buffer too large", with_buffer(floats, 0), bad, v1::BUFFER_SIZE_MISMATCH, {}, 0, floats},
      {"too little after the offset", with_buffer(floats, 36), bad, v1::BUFFER_SIZE_MISMATCH, {}, 0, floats},
      {"offset past the end", with_buffer(floats, 65), StatusCode::kOutOfRange, v1::OUT_OF_BOUNDS, {}, 0, floats},
      {"buffer of other dtype", with_buffer(ints, 0), bad, v1::BUFFER_DTYPE_MISMATCH, {}, 0, ints},
      {"unaligned buffer", with_buffer(floats, 2), bad, v1::BUFFER_DTYPE_MISMATCH, {}, 0},
      {"one buffer written and read",
       [floats](Stubs& stubs) {
         v1::ExecuteRequest request;
         *request.mutable_graph() = GraphOf(kAddTo);
         AddBuffer(request, 0, floats);
         AddBuffer(request, 1, floats);
         return Execute(stubs, request).status();
       },
       bad, v1::BAD_ARGUMENT},
      {"tensor of other dtype",
       Executing([](auto& r) { r.mutable_arguments(0)->mutable_tensor()->set_dtype(v1::INT32); }),
       bad,
       v1::BUFFER_DTYPE_MISMATCH,
       {},
       0},
      {"tensor of other shape",
       Executing([](auto& r) { r.mutable_arguments(0)->mutable_tensor()->set_shape(0, 4); }),
       bad,
       v1::BUFFER_SIZE_MISMATCH,
       {},
       0},
      {"tensor cut short",
       Executing([](auto& r) { r.mutable_arguments(0)->mutable_tensor()->mutable_data()->pop_back(); }),
       bad,
       v1::BUFFER_SIZE_MISMATCH,
       {},
       0},
      {"no handles",
       Executing([](auto& r) { r.mutable_arguments(0)->mutable_handles(); }),
       bad,
       v1::BAD_ARGUMENT,
       {},
       0},
      {"handle beyond the last slot",
       Executing([](auto& r) {
         r.mutable_arguments(0)->set_slot(~0u);
         for (int i = 0; i < 2; ++i) r.mutable_arguments(0)->mutable_handles()->add_handle(1);
       }),
       bad,
       v1::BAD_ARGUMENT,
       {},
       ~0u},
      {"handle of a slot that there is not",
       Executing([=](auto& r) {
         for (int i = 0; i < 2; ++i) r.mutable_arguments(0)->mutable_handles()->add_handle(floats);
       }),
       bad,
       v1::UNKNOWN_ARGUMENT,
       {},
       1},
      {"unknown hash", Executing([](auto& r) {
         r.clear_graph();
         r.set_graph_hash(std::string(32, 'h'));
       }),
       StatusCode::kNotFound, v1::NEED_GRAPH},
      {"hash of another graph", Executing([](auto& r) { r.set_graph_hash(std::string(32, 'h')); }), bad,
       v1::HASH_MISMATCH},
      {"hash too short", Executing([](auto& r) { r.set_graph_hash("h"); }), bad, v1::BAD_ARGUMENT},
      {"neither hash nor graph", Executing([](auto& r) { r.clear_graph(); }), bad, v1::BAD_ARGUMENT},
      {"unknown result mode", Executing([](auto& r) { r.set_result_mode(static_cast<v1::ResultMode>(9)); }), bad,
       v1::BAD_ARGUMENT},
      {"unknown device", Executing([](auto& r) { r.set_device("HIP:3"); }), StatusCode::kNotFound, v1::UNKNOWN_DEVICE},
      {"bad graph", Executing([](auto& r) { r.mutable_graph()->mutable_nodes(3)->set_src(0, 90); }), bad,
       v1::SOURCE_OUT_OF_RANGE, 3},
      {"integer for a tensor", Executing([](auto& r) { r.mutable_arguments(0)->set_integer(3); }), bad,
       v1::BAD_ARGUMENT},
      {"sharded argument", Executing([](auto& r) { r.mutable_arguments(0)->mutable_shards(); }), bad, v1::BAD_ARGUMENT},
      {"more by value than a message holds",
       [](Stubs& stubs) {
         // A message of 2^32 bytes and a few: what counts bytes in 32 bits sees the few.
         v1::ExecuteRequest request;
         *request.mutable_graph() = GraphOf(kExpand);
         request.set_result_mode(v1::RESULT_INLINE);
         v1::Argument* argument = request.add_arguments();
         argument->mutable_tensor()->set_dtype(v1::UINT8);
         argument->mutable_tensor()->add_shape(1);
         argument->mutable_tensor()->set_data("x");
         return Execute(stubs, request).status();
       },
       StatusCode::kResourceExhausted,
       v1::OUT_OF_MEMORY,
       {},
       {},
       0,
       "inline result bytes"},
      {"too many arguments",
       Executing([](auto& r) {
         for (int i = 0; i < 1 << 16; ++i) r.add_arguments()->mutable_tensor();
       }),
       StatusCode::kResourceExhausted,
       v1::GRAPH_TOO_LARGE,
       {},
       {},
       0,
       "arguments"},
      {"no message", [](Stubs& stubs) { return CallRaw(stubs, "/kiln.v1.KernelService/Execute", "\x12\x7f"); }, bad,
       v1::MALFORMED_MESSAGE},
      {"explain by unknown hash",
       [](Stubs& stubs) {
         v1::ExplainRequest request;
         request.set_graph_hash(std::string(32, 'h'));
         v1::ExplainResponse response;
         return Call(*stubs.debug, &v1::DebugService::Stub::Explain, request, response);
       },
       StatusCode::kNotFound, v1::NEED_GRAPH},
  });
}

}  // namespace
}  // namespace kiln::e2e
