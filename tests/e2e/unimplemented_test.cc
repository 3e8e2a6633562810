// An RPC of the protocol that is not served, by this server or by any, says so by name.
#include <gtest/gtest.h>

#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

class UnimplementedTest : public ServerTest {
 protected:
  void Expect(const char* rpc, const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << rpc << ": " << status;
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::NOT_IMPLEMENTED) << rpc;
    EXPECT_EQ(detail.field(), rpc);
    EXPECT_NE(status.message().find(rpc), absl::string_view::npos) << status;
  }
};

TEST_F(UnimplementedTest, Unary) {
  // A method that takes any message's bytes; an empty message has none.
  Expect("BufferService.MapSharedMemory", CallRaw(*stubs_, "/kiln.v1.BufferService/MapSharedMemory", ""));
}

TEST_F(UnimplementedTest, Streams) {
  {
    const auto context = NewContext();
    const auto stream = stubs_->debug->Export(context.get(), v1::ExportRequest());
    v1::ExportResponse response;
    EXPECT_FALSE(stream->Read(&response));
    Expect("DebugService.Export", server::FromGrpc(stream->Finish()));
  }
  {
    const auto context = NewContext();
    v1::ImportResponse response;
    const auto stream = stubs_->debug->Import(context.get(), &response);
    stream->WritesDone();
    Expect("DebugService.Import", server::FromGrpc(stream->Finish()));
  }
}

}  // namespace
}  // namespace kiln::e2e
