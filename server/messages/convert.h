// Between messages and the engine's own structs, where several services need it.
#ifndef KILN_SERVER_MESSAGES_CONVERT_H_
#define KILN_SERVER_MESSAGES_CONVERT_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kiln/v1/buffer_service.pb.h"
#include "kiln/v1/collective_service.pb.h"
#include "kiln/v1/device_service.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/tensor.pb.h"
#include "runtime/hal/device.h"
#include "server/engine/collective.h"
#include "server/engine/executions/requests.h"
#include "server/engine/programs/compile_options.h"

namespace kiln::server {

inline BufferAddress ToAddress(const v1::BufferRef& ref) { return {ref.handle(), ref.offset()}; }

// Points into `request`. BAD_ARGUMENT for an argument without a value or an unknown
// result mode.
absl::StatusOr<ExecuteRequest> ToExecuteRequest(const v1::ExecuteRequest& request);

// Points into `request`.
ReplayRequest ToReplayRequest(const v1::ReplaySequenceRequest& request);

// BAD_ARGUMENT for an op that this kind does not take, and, of a command, for no kind.
absl::StatusOr<CollectiveRequest> ToCollectiveRequest(runtime::collective::Kind kind,
                                                      const v1::CollectiveRequest& message);
absl::StatusOr<CollectiveRequest> ToCollectiveRequest(const v1::CollectiveCommand& command);

// Those of a program for several devices.
void FillCollectives(const ExecuteResult& result, v1::ExecuteResponse& response);

void FillReport(const runtime::collective::Report& report, v1::CollectiveResponse& response);

void FillRecording(const Recording& recording, v1::RecordSequenceResponse& response);

void FillDescription(uint64_t handle, const BufferRecord& record, v1::BufferDescription& description);

// Takes the data out of `result`.
void FillResults(ExecuteResult& result, v1::ExecuteResponse& response);

// Where the parameters and results of a program for several devices are.
void FillLayouts(const runtime::Program& program, v1::CompileResponse& response);

void FillCompiled(const CompileResult& result, v1::CompileResponse& response);

// When a call began, was decoded, and had run.
struct CallTimes {
  absl::Time begin, decoded, executed;
};
// To be called when nothing is left but to send it.
void FillTiming(const ExecuteTiming& timing, const CallTimes& times, v1::Timing& message);

// `waiting`: what is to be submitted to it, in its turn.
void FillDevice(const runtime::hal::Device& device, uint64_t waiting, v1::Device& message);

}  // namespace kiln::server

#endif  // KILN_SERVER_MESSAGES_CONVERT_H_
