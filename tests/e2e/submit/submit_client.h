// One connection of KernelService.Submit, as a test drives it.
#ifndef KILN_TESTS_E2E_SUBMIT_SUBMIT_CLIENT_H_
#define KILN_TESTS_E2E_SUBMIT_SUBMIT_CLIENT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "google/rpc/status.pb.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

class SubmitClient {
 public:
  // Says hello, and waits for nothing.
  explicit SubmitClient(Stubs& stubs, const std::string& token = "", uint64_t acknowledged = 0,
                        std::unique_ptr<grpc::ClientContext> context = NewContext())
      : context_(std::move(context)), stream_(stubs.kernel->Submit(context_.get())) {
    v1::SubmitRequest hello;
    hello.mutable_hello()->set_session_token(token);
    hello.set_acknowledged(acknowledged);
    stream_->Write(hello);
  }

  // The id of the command, the next of `next_id`.
  uint64_t Send(v1::SubmitRequest request) {
    if (request.command_id() == 0) request.set_command_id(next_id++);
    stream_->Write(request);
    return request.command_id();
  }
  uint64_t Allocate(uint64_t handle, uint64_t bytes) {
    v1::SubmitRequest request;
    request.mutable_allocate()->set_handle(handle);
    request.mutable_allocate()->set_bytes(bytes);
    return Send(request);
  }
  uint64_t Write(uint64_t handle, const std::string& data, uint64_t offset = 0) {
    v1::SubmitRequest request;
    request.mutable_write()->mutable_buffer()->set_handle(handle);
    request.mutable_write()->mutable_buffer()->set_offset(offset);
    request.mutable_write()->set_data(data);
    return Send(request);
  }
  uint64_t Read(uint64_t handle, uint64_t offset = 0, uint64_t bytes = 0) {
    v1::SubmitRequest request;
    request.mutable_read()->mutable_buffer()->set_handle(handle);
    request.mutable_read()->mutable_buffer()->set_offset(offset);
    request.mutable_read()->set_bytes(bytes);
    return Send(request);
  }
  uint64_t Copy(uint64_t from, uint64_t to, uint64_t bytes) {
    v1::SubmitRequest request;
    request.mutable_copy()->mutable_from()->set_handle(from);
    request.mutable_copy()->mutable_to()->set_handle(to);
    request.mutable_copy()->set_bytes(bytes);
    return Send(request);
  }
  uint64_t View(uint64_t handle, uint64_t of, uint64_t offset, uint64_t bytes) {
    v1::SubmitRequest request;
    request.mutable_view()->set_handle(handle);
    request.mutable_view()->mutable_of()->set_handle(of);
    request.mutable_view()->mutable_of()->set_offset(offset);
    request.mutable_view()->set_bytes(bytes);
    return Send(request);
  }
  uint64_t Fill(uint64_t handle, const std::string& pattern) {
    v1::SubmitRequest request;
    request.mutable_fill()->mutable_buffer()->set_handle(handle);
    request.mutable_fill()->set_pattern(pattern);
    return Send(request);
  }
  uint64_t Free(const std::vector<uint64_t>& handles) {
    v1::SubmitRequest request;
    request.mutable_free()->mutable_handle()->Add(handles.begin(), handles.end());
    return Send(request);
  }
  uint64_t Execute(const v1::ExecuteRequest& execute, const std::vector<uint64_t>& results,
                   const std::string& tag = "") {
    v1::SubmitRequest request;
    *request.mutable_execute()->mutable_request() = execute;
    request.mutable_execute()->mutable_result_handle()->Add(results.begin(), results.end());
    request.set_tag(tag);
    return Send(request);
  }
  uint64_t Fence() {
    v1::SubmitRequest request;
    request.mutable_fence();
    return Send(request);
  }

  // The next answer, pieces put together; none if the stream has ended. The welcome is
  // kept on the way.
  absl::optional<v1::SubmitResponse> Next() {
    v1::SubmitResponse whole, piece;
    std::string data;
    while (stream_->Read(&piece)) {
      if (piece.has_welcome()) {
        welcome = piece.welcome();
        continue;
      }
      data += piece.data();
      if (piece.more()) continue;
      if (piece.event_case() == v1::SubmitResponse::kData) piece.set_data(data);
      return piece;
    }
    return absl::nullopt;
  }

  // The status that a `failed` has, or why the stream has ended.
  absl::Status Failure() {
    const auto answer = Next();
    if (!answer.has_value()) return Finish();
    failed = answer->failed();
    failed_id = answer->command_id();
    google::rpc::Status wire;
    EXPECT_TRUE(wire.ParseFromString(failed.status()));
    return server::FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(wire.code()), wire.message(), failed.status()));
  }
  v1::ErrorCode FailureCode() { return DetailOf(Failure()).value_or(v1::ErrorDetail()).code(); }

  // What a read of these bytes answers, if nothing failed before.
  std::string ReadBack(uint64_t handle) {
    const uint64_t id = Read(handle);
    const auto answer = Next();
    EXPECT_TRUE(answer.has_value());
    if (!answer.has_value()) return "";
    EXPECT_EQ(answer->command_id(), id);
    EXPECT_EQ(answer->event_case(), v1::SubmitResponse::kData) << answer->ShortDebugString();
    return answer->data();
  }

  void WritesDone() { stream_->WritesDone(); }
  absl::Status Finish() { return server::FromGrpc(stream_->Finish()); }
  // As if the connection were lost.
  void Drop() {
    context_->TryCancel();
    while (Next().has_value()) {
    }
    stream_->Finish();
  }

  uint64_t next_id = 1;
  v1::SubmitWelcome welcome;
  v1::CommandFailed failed;
  uint64_t failed_id = 0;

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SubmitRequest, v1::SubmitResponse>> stream_;
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_SUBMIT_SUBMIT_CLIENT_H_
