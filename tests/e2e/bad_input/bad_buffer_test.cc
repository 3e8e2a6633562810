// Wrong uses of device memory.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/bad_input/bad_input.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

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

      {"view with a shape alone",
       OnBuffers<v1::ViewRequest, v1::ViewResponse>(&Stub::View,
                                                    [b](v1::ViewRequest& r) {
                                                      r.mutable_of()->set_handle(b);
                                                      r.mutable_shape()->Resize(1'000'000, 1);
                                                    }),
       bad,
       v1::BAD_ARGUMENT,
       {},
       {},
       b},
      {"view of too many dimensions",
       OnBuffers<v1::ViewRequest, v1::ViewResponse>(&Stub::View,
                                                    [b](v1::ViewRequest& r) {
                                                      r.mutable_of()->set_handle(b);
                                                      r.set_dtype(v1::UINT8);
                                                      r.mutable_shape()->Resize(33, 1);
                                                    }),
       bad,
       v1::BAD_ARGUMENT,
       {},
       {},
       0,
       "dimensions"},
      {"allocate too many dimensions",
       allocate_type(v1::UINT8, std::vector<int64_t>(33, 1)),
       bad,
       v1::BAD_ARGUMENT,
       {},
       {},
       0,
       "dimensions"},
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
