// Everything a client can get wrong, one row each: the exact status code, the
// exact error code, the node, slot or handle named. After each row the server
// still serves, and its memory is what it was.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

constexpr uint32_t kMaxNodes = 500;
constexpr uint32_t kMaxBytes = 64 << 10;
constexpr uint32_t kMaxDepth = 100;

struct Row {
  std::string name;
  std::function<absl::Status(Stubs&)> call;
  StatusCode status;
  v1::ErrorCode code;
  // What the detail must name, where it must name anything.
  std::optional<uint32_t> node;
  std::optional<uint32_t> slot;
  uint64_t handle = 0;
  std::string limit;
};

class BadInputTest : public ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.mutable_graph_limits()->set_max_nodes(kMaxNodes);
    config.mutable_graph_limits()->set_max_bytes(kMaxBytes);
    config.mutable_graph_limits()->set_max_depth(kMaxDepth);
    Start(config);
  }

  void CheckHealthy(const std::string& after) {
    EXPECT_EQ(Health(*stubs_), grpc::health::v1::HealthCheckResponse::SERVING) << after;
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, std::vector<float>(8, 1.0f));
    const auto response = Execute(*stubs_, request);
    ASSERT_TRUE(response.ok()) << after << ": " << response.status();
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 2.0f)) << after;
  }

  void Check(const std::vector<Row>& rows) {
    const uint64_t in_use = FirstDevice(*stubs_).memory_in_use_bytes();
    CheckHealthy("the start");
    for (const Row& row : rows) {
      const absl::Status status = row.call(*stubs_);
      EXPECT_EQ(status.code(), row.status) << row.name << ": " << status;
      const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
      EXPECT_EQ(v1::ErrorCode_Name(detail.code()), v1::ErrorCode_Name(row.code)) << row.name << ": " << status;
      EXPECT_FALSE(status.message().empty()) << row.name;
      if (row.node.has_value()) {
        EXPECT_TRUE(detail.has_node()) << row.name << ": " << status;
        EXPECT_EQ(detail.node(), *row.node) << row.name << ": " << status;
      }
      if (row.slot.has_value()) {
        EXPECT_EQ(detail.slot(), *row.slot) << row.name << ": " << status;
      }
      if (row.handle != 0) {
        EXPECT_EQ(detail.handle(), row.handle) << row.name << ": " << status;
      }
      if (!row.limit.empty()) {
        EXPECT_EQ(detail.limit(), row.limit) << row.name << ": " << status;
        EXPECT_GT(detail.limit_value(), 0u) << row.name;
        EXPECT_GT(detail.used(), detail.limit_value()) << row.name;
      }
      CheckHealthy(row.name);
      EXPECT_TRUE(MemoryReturnsTo(*stubs_, in_use)) << row.name;
    }
  }
};

std::function<absl::Status(Stubs&)> Compiling(const v1::Graph& graph) {
  return [graph](Stubs& stubs) { return Compile(stubs, graph).status(); };
}
std::function<absl::Status(Stubs&)> Compiling(const std::string& text) { return Compiling(GraphOf(text)); }

v1::Graph Chain(int length) {
  std::string text = "0 CONST [] weakint 8\n1 PARAM : float32 [0] slot=0\n";
  for (int i = 2; i < length; ++i) absl::StrAppend(&text, i, " SIN [", i - 1, "]\n");
  absl::StrAppend(&text, length, " TUPLE [", length - 1, "]\n");
  return GraphOf(text);
}

v1::Graph Wide(int nodes) {
  v1::Graph graph = GraphOf(kAddOne);
  const v1::UOp root = graph.nodes(graph.nodes_size() - 1);
  graph.mutable_nodes()->RemoveLast();
  while (graph.nodes_size() + 1 < nodes) *graph.add_nodes() = graph.nodes(2);
  *graph.add_nodes() = root;
  return graph;
}

v1::Graph Tagged(size_t bytes) {
  v1::Graph graph = GraphOf(kAddOne);
  graph.mutable_nodes(0)->set_tag(std::string(bytes, 't'));
  return graph;
}

TEST_F(BadInputTest, Graphs) {
  const std::string x = "0 CONST [] weakint 8\n1 PARAM : float32 [0] slot=0\n";
  Check({
      {"no node", Compiling(v1::Graph()), StatusCode::kInvalidArgument, v1::GRAPH_EMPTY},
      {"a cycle", Compiling(x + "2 ADD [1, 3]\n3 ADD [1, 2]\n4 TUPLE [3]\n"), StatusCode::kInvalidArgument,
       v1::GRAPH_CYCLE, 2},
      {"its own source", Compiling(x + "2 ADD [1, 2]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument, v1::GRAPH_CYCLE,
       2},
      {"source out of range", Compiling(x + "2 ADD [1, 77]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::SOURCE_OUT_OF_RANGE, 2},
      {"unknown op", Compiling(x + "2 999 [1]\n3 TUPLE [2]\n"), StatusCode::kUnimplemented, v1::UNKNOWN_OP, 2},
      {"wrong source count", Compiling(x + "2 ADD [1]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::WRONG_SOURCE_COUNT, 2},
      {"missing op argument", Compiling(x + "2 CAST [1]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::BAD_ARGUMENT, 2},
      {"dtype mismatch", Compiling(x + "2 PARAM : int32 [0] slot=1\n3 ADD [1, 2]\n4 TUPLE [3]\n"),
       StatusCode::kInvalidArgument, v1::DTYPE_MISMATCH, 3},
      {"dtype check", Compiling(x + "2 ADD : int32 [1, 1]\n3 TUPLE [2]\n"), StatusCode::kInvalidArgument,
       v1::DTYPE_MISMATCH, 2},
      {"shape mismatch",
       Compiling(x + "2 CONST [] weakint 7\n3 PARAM : float32 [2] slot=1\n4 ADD [1, 3]\n5 TUPLE [4]\n"),
       StatusCode::kInvalidArgument, v1::SHAPE_MISMATCH, 4},
      {"size overflow",
       Compiling("0 CONST [] weakint 1099511627776\n1 STACK [0, 0]\n2 PARAM : float32 [1] slot=0\n3 TUPLE [2]\n"),
       StatusCode::kInvalidArgument, v1::SIZE_OVERFLOW, 2},
      {"no root", Compiling(x), StatusCode::kInvalidArgument, v1::BAD_ROOT},
      {"too many nodes", Compiling(Wide(kMaxNodes + 1)), StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE,
       std::nullopt, std::nullopt, 0, "nodes"},
      {"too many bytes", Compiling(Tagged(kMaxBytes)), StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE,
       std::nullopt, std::nullopt, 0, "bytes"},
      {"too deep", Compiling(Chain(kMaxDepth + 10)), StatusCode::kResourceExhausted, v1::GRAPH_TOO_LARGE},
      {"unknown device",
       [](Stubs& stubs) {
         v1::CompileRequest request;
         *request.mutable_graph() = GraphOf(kAddOne);
         request.set_device("CUDA:0");
         return Compile(stubs, request).status();
       },
       StatusCode::kNotFound, v1::UNKNOWN_DEVICE},
      {"no message", [](Stubs& stubs) { return CallRaw(stubs, "/kiln.v1.KernelService/Compile", "\xff\xff"); },
       StatusCode::kInvalidArgument, v1::MALFORMED_MESSAGE},
  });
}

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
      {"integer argument", Executing([](auto& r) { r.mutable_arguments(0)->set_integer(3); }),
       StatusCode::kUnimplemented, v1::NOT_IMPLEMENTED},
      {"sharded argument", Executing([](auto& r) { r.mutable_arguments(0)->mutable_shards(); }),
       StatusCode::kUnimplemented, v1::NOT_IMPLEMENTED},
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

// A BufferService.Write of these messages.
std::function<absl::Status(Stubs&)> Writing(std::vector<v1::WriteRequest> messages) {
  return [messages](Stubs& stubs) {
    const auto context = NewContext();
    v1::WriteResponse response;
    const auto stream = stubs.buffer->Write(context.get(), &response);
    for (const v1::WriteRequest& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    return server::FromGrpc(stream->Finish());
  };
}

v1::WriteRequest Header(uint64_t handle, uint64_t offset, uint64_t bytes) {
  v1::WriteRequest message;
  message.mutable_header()->mutable_buffer()->set_handle(handle);
  message.mutable_header()->mutable_buffer()->set_offset(offset);
  message.mutable_header()->set_bytes(bytes);
  return message;
}

v1::WriteRequest Chunk(size_t bytes) {
  v1::WriteRequest message;
  message.set_chunk(std::string(bytes, 'c'));
  return message;
}

template <typename Request, typename Response>
std::function<absl::Status(Stubs&)> OnBuffers(grpc::Status (v1::BufferService::Stub::*rpc)(grpc::ClientContext*,
                                                                                           const Request&, Response*),
                                              std::function<void(Request&)> fill) {
  return [=](Stubs& stubs) {
    Request request;
    fill(request);
    Response response;
    return Call(*stubs.buffer, rpc, request, response);
  };
}

TEST_F(BadInputTest, Buffers) {
  using Stub = v1::BufferService::Stub;
  const uint64_t b = *AllocateBytes(*stubs_, 100);
  const auto allocate = [](std::function<void(v1::AllocateRequest&)> fill) {
    return OnBuffers<v1::AllocateRequest, v1::AllocateResponse>(&Stub::Allocate, std::move(fill));
  };
  const auto allocate_type = [&](v1::DType dtype, std::vector<int64_t> shape) {
    return allocate([=](v1::AllocateRequest& request) {
      request.mutable_type()->set_dtype(dtype);
      request.mutable_type()->mutable_shape()->Add(shape.begin(), shape.end());
    });
  };
  const auto view = [](uint64_t handle, uint64_t offset, uint64_t bytes, v1::DType dtype, int64_t size) {
    return OnBuffers<v1::ViewRequest, v1::ViewResponse>(&Stub::View, [=](v1::ViewRequest& request) {
      request.mutable_of()->set_handle(handle);
      request.mutable_of()->set_offset(offset);
      request.set_bytes(bytes);
      request.set_dtype(dtype);
      if (dtype != v1::DTYPE_UNSPECIFIED) request.add_shape(size);
    });
  };
  const auto copy = [](uint64_t from, uint64_t to, uint64_t to_offset, uint64_t bytes) {
    return OnBuffers<v1::CopyRequest, v1::CopyResponse>(&Stub::Copy, [=](v1::CopyRequest& request) {
      request.mutable_from()->set_handle(from);
      request.mutable_to()->set_handle(to);
      request.mutable_to()->set_offset(to_offset);
      request.set_bytes(bytes);
    });
  };
  const auto fill = [](uint64_t handle, uint64_t bytes, std::string pattern) {
    return OnBuffers<v1::FillRequest, v1::FillResponse>(&Stub::Fill, [=](v1::FillRequest& request) {
      request.mutable_buffer()->set_handle(handle);
      request.set_bytes(bytes);
      request.set_pattern(pattern);
    });
  };
  const auto bad = StatusCode::kInvalidArgument;
  const auto missing = StatusCode::kNotFound;
  const auto range = StatusCode::kOutOfRange;
  constexpr uint64_t kHuge = ~uint64_t{0};
  Check({
      {"allocate nothing said", allocate([](auto&) {}), bad, v1::BAD_ARGUMENT},
      {"allocate overflow", allocate([](auto& r) { r.set_bytes(kHuge); }), bad, v1::SIZE_OVERFLOW},
      {"allocate too much", allocate([](auto& r) { r.set_bytes(uint64_t{1} << 50); }), StatusCode::kResourceExhausted,
       v1::OUT_OF_MEMORY},
      {"allocate type overflow", allocate_type(v1::FLOAT64, {int64_t{1} << 40, int64_t{1} << 40}), bad,
       v1::SIZE_OVERFLOW},
      {"allocate negative", allocate_type(v1::FLOAT64, {-1}), bad, v1::BAD_ARGUMENT},
      {"allocate void", allocate_type(v1::VOID, {1}), bad, v1::BAD_ARGUMENT},
      {"allocate elsewhere", allocate([](auto& r) {
         r.set_bytes(1);
         r.set_device("CUDA:0");
       }),
       missing, v1::UNKNOWN_DEVICE},

      {"truncated upload", Writing({Header(b, 0, 50), Chunk(20)}), bad, v1::TRUNCATED_UPLOAD, {}, {}, b},
      {"upload without data", Writing({Header(b, 0, 50)}), bad, v1::TRUNCATED_UPLOAD, {}, {}, b},
      {"too much data", Writing({Header(b, 0, 50), Chunk(20), Chunk(31)}), bad, v1::TOO_MUCH_DATA, {}, {}, b},
      {"upload without header", Writing({Chunk(20)}), bad, v1::MALFORMED_MESSAGE},
      {"upload of nothing", Writing({}), bad, v1::MALFORMED_MESSAGE},
      {"two headers", Writing({Header(b, 0, 50), Header(b, 0, 50)}), bad, v1::MALFORMED_MESSAGE},
      {"empty part", Writing({Header(b, 0, 50), v1::WriteRequest()}), bad, v1::MALFORMED_MESSAGE},
      {"upload to nowhere", Writing({Header(99, 0, 50)}), missing, v1::UNKNOWN_HANDLE, {}, {}, 99},
      {"upload past the end", Writing({Header(b, 60, 50)}), range, v1::OUT_OF_BOUNDS, {}, {}, b},
      {"upload that wraps", Writing({Header(b, 60, kHuge)}), range, v1::OUT_OF_BOUNDS, {}, {}, b},

      {"read unknown", [](Stubs& s) { return Download(s, 99).status(); }, missing, v1::UNKNOWN_HANDLE, {}, {}, 99},
      {"read past the end", [b](Stubs& s) { return Download(s, b, 60, 50).status(); }, range, v1::OUT_OF_BOUNDS},
      {"read from past the end", [b](Stubs& s) { return Download(s, b, 101).status(); }, range, v1::OUT_OF_BOUNDS},

      {"copy from unknown", copy(99, b, 0, 1), missing, v1::UNKNOWN_HANDLE, {}, {}, 99},
      {"copy to unknown", copy(b, 99, 0, 1), missing, v1::UNKNOWN_HANDLE, {}, {}, 99},
      {"copy too much", copy(b, b, 0, 101), range, v1::OUT_OF_BOUNDS, {}, {}, b},
      {"copy past the end", copy(b, b, 60, 50), range, v1::OUT_OF_BOUNDS, {}, {}, b},
      {"copy that wraps", copy(b, b, kHuge, 2), range, v1::OUT_OF_BOUNDS, {}, {}, b},

      {"fill unknown", fill(99, 0, "a"), missing, v1::UNKNOWN_HANDLE, {}, {}, 99},
      {"fill with nothing", fill(b, 0, ""), bad, v1::BAD_ARGUMENT},
      {"fill with three bytes", fill(b, 0, "abc"), bad, v1::BAD_ARGUMENT},
      {"fill unevenly", fill(b, 0, "01234567"), bad, v1::BAD_ARGUMENT},
      {"fill past the end", fill(b, 104, "01234567"), range, v1::OUT_OF_BOUNDS, {}, {}, b},

      {"view of unknown", view(99, 0, 0, v1::DTYPE_UNSPECIFIED, 0), missing, v1::UNKNOWN_HANDLE, {}, {}, 99},
      {"view past the end", view(b, 60, 50, v1::DTYPE_UNSPECIFIED, 0), range, v1::OUT_OF_BOUNDS, {}, {}, b},
      {"view of too large a type", view(b, 0, 0, v1::FLOAT32, 26), range, v1::OUT_OF_BOUNDS, {}, {}, b},
      {"view of another size", view(b, 0, 8, v1::FLOAT32, 4), bad, v1::BUFFER_SIZE_MISMATCH, {}, {}, b},

      {"free unknown", [b](Stubs& s) { return Free(s, {b, 99}); }, missing, v1::UNKNOWN_HANDLE, {}, {}, 99},
      {"free twice at once", [b](Stubs& s) { return Free(s, {b, b}); }, missing, v1::UNKNOWN_HANDLE, {}, {}, b},
      {"describe unknown",
       OnBuffers<v1::DescribeBufferRequest, v1::DescribeBufferResponse>(&Stub::Describe,
                                                                        [](auto& r) { r.set_handle(99); }),
       missing,
       v1::UNKNOWN_HANDLE,
       {},
       {},
       99},
      {"no message", [](Stubs& s) { return CallRaw(s, "/kiln.v1.BufferService/Allocate", "\xff"); }, bad,
       v1::MALFORMED_MESSAGE},
  });
}

}  // namespace
}  // namespace kiln::e2e
