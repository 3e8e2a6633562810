// BufferService: memory by handle.
#include <gtest/gtest.h>

#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

std::string Pattern(size_t size) {
  std::string data(size, '\0');
  for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 31 + (i >> 8) * 7);
  return data;
}

class BufferServiceTest : public ServerTest {
 protected:
  absl::StatusOr<v1::BufferDescription> Describe(uint64_t handle) {
    v1::DescribeBufferRequest request;
    request.set_handle(handle);
    v1::DescribeBufferResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs_->buffer, &v1::BufferService::Stub::Describe, request, response));
    return response.buffer();
  }

  absl::StatusOr<v1::BufferDescription> View(const v1::ViewRequest& request) {
    v1::ViewResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs_->buffer, &v1::BufferService::Stub::View, request, response));
    return response.buffer();
  }

  absl::Status Copy(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes) {
    v1::CopyRequest request;
    request.mutable_from()->set_handle(from);
    request.mutable_from()->set_offset(from_offset);
    request.mutable_to()->set_handle(to);
    request.mutable_to()->set_offset(to_offset);
    request.set_bytes(bytes);
    v1::CopyResponse response;
    return Call(*stubs_->buffer, &v1::BufferService::Stub::Copy, request, response);
  }

  absl::Status Fill(uint64_t handle, const std::string& pattern, uint64_t offset = 0, uint64_t bytes = 0) {
    v1::FillRequest request;
    request.mutable_buffer()->set_handle(handle);
    request.mutable_buffer()->set_offset(offset);
    request.set_bytes(bytes);
    request.set_pattern(pattern);
    v1::FillResponse response;
    return Call(*stubs_->buffer, &v1::BufferService::Stub::Fill, request, response);
  }
};

TEST_F(BufferServiceTest, FreshMemoryIsZeroAlsoWhenItWasUsedBefore) {
  const uint64_t first = *AllocateBytes(*stubs_, 5000);
  EXPECT_EQ(*Download(*stubs_, first), std::string(5000, '\0'));
  ASSERT_TRUE(Upload(*stubs_, first, Pattern(5000)).ok());
  ASSERT_TRUE(Free(*stubs_, {first}).ok());
  const uint64_t second = *AllocateBytes(*stubs_, 5000);
  EXPECT_EQ(*Download(*stubs_, second), std::string(5000, '\0'));
}

TEST_F(BufferServiceTest, UploadsAndDownloadsOfAnySize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{1} << 20, (size_t{5} << 20) + 3}) {
    const uint64_t handle = *AllocateBytes(*stubs_, size);
    const std::string data = Pattern(size);
    ASSERT_TRUE(Upload(*stubs_, handle, data).ok()) << size;
    EXPECT_TRUE(*Download(*stubs_, handle) == data) << size;
    ASSERT_TRUE(Free(*stubs_, {handle}).ok());
  }
}

TEST_F(BufferServiceTest, ChunksMayBeOfAnySize) {
  const uint64_t handle = *AllocateBytes(*stubs_, 300'000);
  const std::string data = Pattern(300'000);
  for (const size_t chunk : {size_t{777}, size_t{65'536}, size_t{299'999}}) {
    ASSERT_TRUE(Fill(handle, std::string(1, '\0')).ok());
    ASSERT_TRUE(Upload(*stubs_, handle, data, 0, chunk).ok()) << chunk;
    EXPECT_TRUE(*Download(*stubs_, handle) == data) << chunk;
  }
}

TEST_F(BufferServiceTest, PartsAreReadAndWritten) {
  const uint64_t handle = *AllocateBytes(*stubs_, 100);
  ASSERT_TRUE(Upload(*stubs_, handle, "hello", 40).ok());
  EXPECT_EQ(*Download(*stubs_, handle, 38, 9), std::string("\0\0hello\0\0", 9));
  EXPECT_EQ(Download(*stubs_, handle, 40)->size(), 60u);
}

TEST_F(BufferServiceTest, DescribeSaysWhatWasAllocated) {
  v1::AllocateRequest request;
  request.set_device("CPU:0");
  request.mutable_type()->set_dtype(v1::INT16);
  request.mutable_type()->add_shape(3);
  request.mutable_type()->add_shape(5);
  const auto made = Allocate(*stubs_, request);
  ASSERT_TRUE(made.ok());
  const auto described = Describe(made->handle());
  ASSERT_TRUE(described.ok());
  EXPECT_EQ(described->SerializeAsString(), made->SerializeAsString());
  EXPECT_EQ(described->bytes(), 30u);
  EXPECT_EQ(described->dtype(), v1::INT16);
  EXPECT_EQ(described->shape_size(), 2);
  EXPECT_EQ(described->device(), "CPU:0");
  EXPECT_EQ(described->view_of(), 0u);
}

TEST_F(BufferServiceTest, CopiesThatOverlapReadFirst) {
  const uint64_t handle = *AllocateBytes(*stubs_, 10);
  for (const bool forward : {true, false}) {
    ASSERT_TRUE(Upload(*stubs_, handle, "0123456789").ok());
    ASSERT_TRUE((forward ? Copy(handle, 0, handle, 2, 8) : Copy(handle, 2, handle, 0, 8)).ok());
    EXPECT_EQ(*Download(*stubs_, handle), forward ? "0101234567" : "2345678989");
  }
}

TEST_F(BufferServiceTest, CopiesBetweenBuffers) {
  const uint64_t from = *AllocateBytes(*stubs_, 10);
  const uint64_t to = *AllocateBytes(*stubs_, 6);
  ASSERT_TRUE(Upload(*stubs_, from, "0123456789").ok());
  ASSERT_TRUE(Copy(from, 3, to, 1, 5).ok());
  EXPECT_EQ(*Download(*stubs_, to), std::string("\0"
                                                "34567",
                                                6));
}

TEST_F(BufferServiceTest, FillRepeatsItsPattern) {
  const uint64_t handle = *AllocateBytes(*stubs_, 16);
  ASSERT_TRUE(Fill(handle, "ab").ok());
  EXPECT_EQ(*Download(*stubs_, handle), "abababababababab");
  ASSERT_TRUE(Fill(handle, "wxyz", 4, 8).ok());
  EXPECT_EQ(*Download(*stubs_, handle), "ababwxyzwxyzabab");
  ASSERT_TRUE(Fill(handle, "01234567").ok());
  EXPECT_EQ(*Download(*stubs_, handle), "0123456701234567");
}

TEST_F(BufferServiceTest, AViewSharesAndKeepsTheMemory) {
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  const uint64_t whole = *AllocateBytes(*stubs_, 64);
  v1::ViewRequest request;
  request.mutable_of()->set_handle(whole);
  request.mutable_of()->set_offset(16);
  request.set_dtype(v1::FLOAT32);
  request.add_shape(8);
  const auto view = View(request);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->bytes(), 32u);
  EXPECT_EQ(view->view_of(), whole);
  EXPECT_NE(view->handle(), whole);

  ASSERT_TRUE(Upload(*stubs_, whole, std::string(64, 'x')).ok());
  ASSERT_TRUE(Free(*stubs_, {whole}).ok());
  EXPECT_EQ(*Download(*stubs_, view->handle()), std::string(32, 'x'));
  ASSERT_TRUE(Free(*stubs_, {view->handle()}).ok());
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
}

TEST_F(BufferServiceTest, FreeIsAllOrNothing) {
  const uint64_t a = *AllocateBytes(*stubs_, 8);
  const uint64_t b = *AllocateBytes(*stubs_, 8);
  const absl::Status status = Free(*stubs_, {a, 12345, b});
  EXPECT_EQ(DetailOf(status)->handle(), 12345u);
  EXPECT_TRUE(Describe(a).ok());
  EXPECT_TRUE(Describe(b).ok());
  EXPECT_TRUE(Free(*stubs_, {a, b}).ok());
  EXPECT_FALSE(Describe(a).ok());
}

TEST_F(BufferServiceTest, OutOfMemoryNamesTheLimit) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_cpu_memory_bytes(1 << 20);
  Start(config);
  const absl::Status status = AllocateBytes(*stubs_, 2 << 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(status)->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(DetailOf(status)->limit_value(), uint64_t{1} << 20);
  EXPECT_TRUE(AllocateBytes(*stubs_, 1 << 19).ok());
}

}  // namespace
}  // namespace kiln::e2e
