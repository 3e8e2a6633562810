// KernelService: compile graphs and run them. Submit is in submit.cc.
#include <utility>

#include "base/clock.h"
#include "kiln/v1/kernel_service.pb.h"
#include "server/messages/convert.h"
#include "server/services/rpcs.h"

namespace kiln::server {

void rpc::KernelService::Compile(UnaryCall<v1::CompileRequest, v1::CompileResponse>& call) {
  const v1::CompileRequest& message = call.request();
  CompileRequest asked{&message.graph(), message.device(), ToOptions(message.options()), call.session()};
  asked.parts = &call.parts();
  call.env().engine.Compile(asked, call.control(), [&call](absl::StatusOr<CompileResult> result) {
    if (!result.ok()) return call.Reply(result.status());
    FillCompiled(*result, call.response());
    call.Reply(absl::OkStatus());
  });
}

void rpc::KernelService::Execute(UnaryCall<v1::ExecuteRequest, v1::ExecuteResponse>& call) {
  auto asked = ToExecuteRequest(call.request());
  if (!asked.ok()) return call.Reply(asked.status());
  asked->caller = call.session();
  asked->parts = &call.parts();
  const absl::Time decoded = SteadyNow();
  call.parts().Set(Part::kDecode, call.begin(), decoded);
  call.env().engine.Execute(*std::move(asked), call.control(), [&call, decoded](absl::StatusOr<ExecuteResult> result) {
    if (!result.ok()) return call.Reply(result.status());
    const absl::Time executed = SteadyNow();
    call.MarkDone(decoded, executed);
    v1::ExecuteResponse& answer = call.response();
    answer.set_from_cache(result->from_cache);
    FillResults(*result, answer);
    call.Keep(std::move(result->charge));
    if (call.request().want_timing()) {
      FillTiming(result->timing, {call.begin(), decoded, executed}, *answer.mutable_timing());
      FillCollectives(*result, answer);
    }
    call.Reply(absl::OkStatus());
  });
}

void rpc::KernelService::RecordSequence(UnaryCall<v1::RecordSequenceRequest, v1::RecordSequenceResponse>& call) {
  call.env().engine.Record(call.request(), call.session(), call.control(),
                           [&call](absl::StatusOr<Recordings::Handle> recording) {
                             if (recording.ok()) FillRecording(**recording, call.response());
                             call.Reply(recording.status());
                           });
}

void rpc::KernelService::ReplaySequence(UnaryCall<v1::ReplaySequenceRequest, v1::ReplaySequenceResponse>& call) {
  ReplayRequest asked = ToReplayRequest(call.request());
  asked.caller = call.session();
  asked.parts = &call.parts();
  const absl::Time decoded = SteadyNow();
  call.parts().Set(Part::kDecode, call.begin(), decoded);
  call.env().engine.Replay(asked, call.control(), [&call, decoded](absl::StatusOr<ExecuteTiming> timing) {
    const absl::Time replayed = SteadyNow();
    if (timing.ok()) call.MarkDone(decoded, replayed);
    if (timing.ok() && call.request().want_timing()) {
      FillTiming(*timing, {call.begin(), decoded, replayed}, *call.response().mutable_timing());
    }
    call.Reply(timing.status());
  });
}

void rpc::KernelService::Gradient(UnaryCall<v1::GradientRequest, v1::GradientResponse>& call) {
  call.env().engine.Gradient(call.request(), call.session().get(), call.control(),
                             [&call](absl::StatusOr<v1::GradientResponse> gradient) {
                               if (gradient.ok()) call.response() = *std::move(gradient);
                               call.Reply(gradient.status());
                             });
}

}  // namespace kiln::server
