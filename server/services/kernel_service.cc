#include "server/services/kernel_service.h"

#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/messages/convert.h"
#include "server/services/call.h"
#include "server/services/submit.h"

namespace kiln::server {

grpc::ServerUnaryReactor* KernelServiceImpl::Compile(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::CompileRequest, v1::CompileResponse>(env_, context, request, response, [this](auto& call) {
    const v1::CompileRequest& message = call.request();
    const CompileRequest asked{&message.graph(), message.device(), ToOptions(message.options())};
    env_.engine.Compile(asked, call.control(), [&call](absl::StatusOr<CompileResult> result) {
      if (!result.ok()) return call.Reply(result.status());
      FillCompiled(*result, call.response());
      call.Reply(absl::OkStatus());
    });
  });
}

grpc::ServerUnaryReactor* KernelServiceImpl::Execute(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::ExecuteRequest, v1::ExecuteResponse>(env_, context, request, response, [this](auto& call) {
    auto asked = ToExecuteRequest(call.request());
    if (!asked.ok()) return call.Reply(asked.status());
    asked->caller = call.session();
    const absl::Time decoded = absl::Now();
    env_.engine.Execute(*std::move(asked), call.control(), [&call, decoded](absl::StatusOr<ExecuteResult> result) {
      if (!result.ok()) return call.Reply(result.status());
      const absl::Time executed = absl::Now();
      v1::ExecuteResponse& answer = call.response();
      answer.set_from_cache(result->from_cache);
      FillResults(*result, answer);
      if (call.request().want_timing()) {
        FillTiming(result->timing, {call.begin(), decoded, executed}, *answer.mutable_timing());
        FillCollectives(*result, answer);
      }
      call.Reply(absl::OkStatus());
    });
  });
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* KernelServiceImpl::Submit(
    grpc::CallbackServerContext* context) {
  return StartSubmit(env_, *context);
}

grpc::ServerUnaryReactor* KernelServiceImpl::RecordSequence(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* request,
                                                            grpc::ByteBuffer* response) {
  return Serve<v1::RecordSequenceRequest, v1::RecordSequenceResponse>(
      env_, context, request, response, [this](auto& call) {
        env_.engine.Record(call.request(), call.control(), [&call](absl::StatusOr<Recordings::Handle> recording) {
          if (recording.ok()) FillRecording(**recording, call.response());
          call.Reply(recording.status());
        });
      });
}

grpc::ServerUnaryReactor* KernelServiceImpl::ReplaySequence(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* request,
                                                            grpc::ByteBuffer* response) {
  return Serve<v1::ReplaySequenceRequest, v1::ReplaySequenceResponse>(
      env_, context, request, response, [this](auto& call) {
        ReplayRequest asked = ToReplayRequest(call.request());
        asked.caller = call.session();
        const absl::Time decoded = absl::Now();
        env_.engine.Replay(asked, call.control(), [&call, decoded](absl::StatusOr<ExecuteTiming> timing) {
          if (timing.ok() && call.request().want_timing()) {
            FillTiming(*timing, {call.begin(), decoded, absl::Now()}, *call.response().mutable_timing());
          }
          call.Reply(timing.status());
        });
      });
}

grpc::ServerUnaryReactor* KernelServiceImpl::Gradient(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::GradientRequest, v1::GradientResponse>(env_, context, request, response, [this](auto& call) {
    env_.engine.Gradient(call.request(), call.control(), [&call](absl::StatusOr<v1::GradientResponse> gradient) {
      if (gradient.ok()) call.response() = *std::move(gradient);
      call.Reply(gradient.status());
    });
  });
}

}  // namespace kiln::server
