// What the engine is asked and what it answers, without gRPC and, but for
// graphs, without messages.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_REQUESTS_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/account.h"
#include "base/graph/graph_hash.h"
#include "compiler/options/options.h"
#include "compiler/search/tuning.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "runtime/exec/task_collective.h"
#include "server/engine/executions/recordings.h"
#include "server/engine/memory/buffer_table.h"
#include "server/engine/programs/program_store.h"
#include "server/trace/parts.h"

namespace kiln::server {

// Memory by handle, from byte `offset` on.
struct BufferAddress {
  uint64_t handle = 0;
  uint64_t offset = 0;
};

// A tensor by value, in memory of the caller's.
struct TensorView {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  absl::Span<const int64_t> shape;
  absl::string_view data;
};

// One device's share each.
struct ShardAddresses {
  std::vector<BufferAddress> shards;
};

struct Argument {
  uint32_t slot = 0;
  // A variable has an integer. A record is memory that the server itself has for the run, such as a served model's
  // weights: no caller has a handle of it, so what a program gives of it goes back by value.
  std::variant<BufferAddress, TensorView, int64_t, ShardAddresses, BufferTable::Record> value;
};

// All that is pointed to, also from within arguments, lives until the request's
// callback has returned.
struct CompileRequest {
  const v1::Graph* graph = nullptr;  // not null
  absl::string_view device;          // empty: the first
  compiler::Options options;
  // The session that asks. May be null.
  SessionPtr caller = nullptr;
  // The graph's hash, if this server has made it of that very graph already.
  const GraphHash* hashed = nullptr;
  // Gets when each part was, until the answer. May be null.
  NotedParts* parts = nullptr;
};

struct BoundArguments;  // arguments.h

struct CompileResult {
  ProgramStore::Program program;
  bool from_cache = false;
};

struct ExecuteRequest {
  // What to run, if whoever asks has it already: then nothing else says it, and it need not be the caller's.
  ProgramStore::Program program;
  // Else one of the two, or both.
  absl::string_view graph_hash;  // empty or 32 bytes
  const v1::Graph* graph = nullptr;
  const GraphHash* hashed = nullptr;  // as in CompileRequest
  absl::string_view device;           // empty: the first
  compiler::Options options;
  absl::InlinedVector<Argument, 8> arguments;
  // It answers several requests: those are counted, and not it. They may come from several callers, so Control::domain
  // names the owner of what it leaves in memory (or nobody). Of any other request the owner is the caller.
  bool of_several = false;
  // What it names by handle stays as it is until the answer: it may be run later than what comes after it.
  bool may_wait = false;
  // By value instead of as new buffers.
  bool results_inline = false;
  // With named results: one for each of the signature's, which `caller` has reserved
  // (buffer_table.h), or 0 for one that it does not want or that is a parameter. They
  // are made before the run, and stand for their memory from then on. On several devices
  // each share has one, and is there when the answer is.
  bool results_named = false;
  absl::Span<const uint64_t> result_names;
  // The caller handles poison (poison.h): the call does not check what it reads, and does
  // not mark what it writes.
  bool settled_by_caller = false;
  // Called once the arguments are bound and the results made, before the answer; not if
  // that failed, nor on several devices. The results by value will have so many bytes.
  std::function<void(const runtime::Program&, const BoundArguments&, uint64_t inline_bytes)> started;
  // Called after that, once all is in the device's queue: what is submitted from now on
  // comes behind it. The answer may have been given.
  std::function<void()> submitted;
  // The session that asks: owns the results that are new buffers. May be null.
  SessionPtr caller;
  // Gets when each part was, until the answer. May be null.
  NotedParts* parts = nullptr;
};

// One result of an Execute.
struct ResultValue {
  // With a handle: the buffer behind it.
  uint64_t handle = 0;
  BufferTable::Record buffer;
  // Of a result on several devices, share by share; each has a handle. Split along the
  // axis, or whole (-1).
  struct Shard {
    uint64_t handle = 0;
    BufferTable::Record buffer;
  };
  std::vector<Shard> shards;
  int axis = -1;
  // Without one: the bytes.
  std::string data;
  std::vector<int64_t> shape;
  // Index into the signature's results.
  int index = 0;
};

// Microseconds.
struct ExecuteTiming {
  double verify = 0;   // checking and hashing the graph, if one was sent
  double cache = 0;    // finding the program
  double compile = 0;  // waiting for it to be compiled
  double h2d = 0;      // arguments: handles looked up, inline ones copied
  double queue = 0;
  double device = 0;
  double d2h = 0;  // results: handles made, inline ones copied
};

struct ExecuteResult {
  ProgramStore::Program program;
  absl::InlinedVector<ResultValue, 4> results;
  bool from_cache = false;
  ExecuteTiming timing;
  std::vector<runtime::RanCollective> collectives;
  // How many requests its run has answered (server/engine/batching); 0 for all of these but the first.
  int batch = 1;
  // For the results by value, and for as many bytes of the message that brings them: to be kept
  // until the client has it.
  Charge charge;
};

struct ReplayRequest {
  absl::string_view recording;
  // What FindRecording gave for that; null if the caller has not asked.
  Recordings::Handle found;
  absl::InlinedVector<BufferAddress, 16> buffers;
  absl::Span<const int64_t> integers;
  // The session that asks. May be null.
  SessionPtr caller;
  // As in ExecuteRequest.
  bool settled_by_caller = false;
  CallParts* parts = nullptr;
};

struct ExplainRequest {
  SessionPtr caller;  // may be null
  absl::string_view graph_hash;
  const v1::Graph* graph = nullptr;
  absl::string_view device;
  compiler::Options options;
  // Names of stages, whole ("010.rangeify") or without their number; all if
  // empty.
  std::vector<std::string> stages;
  // The language to compile to; empty: the device's own code.
  std::string source;
};

struct ExplainedStage {
  std::string name;
  std::string text;
  double micros = 0;
  size_t nodes = 0;
};

struct Explanation {
  Digest graph_hash;
  std::vector<ExplainedStage> stages;
  v1::Executable executable;
};

struct TuneRequest {
  SessionPtr caller;  // may be null
  absl::string_view graph_hash;
  const v1::Graph* graph = nullptr;
  absl::string_view device;
  compiler::Options options;  // beam 0: kTuneWidth
  // Called on the searching thread; must not block. May be null.
  std::function<void(const compiler::TuneEvent&)> progress;
};
inline constexpr uint32_t kTuneWidth = 4;

struct TuneResult {
  Digest graph_hash;
  compiler::Tuned tuned;
};

// Each is called exactly once, on the asking thread, a compile thread or a
// device's, and must not block.
using CompileCallback = absl::AnyInvocable<void(absl::StatusOr<CompileResult>)>;
using ExecuteCallback = absl::AnyInvocable<void(absl::StatusOr<ExecuteResult>)>;
using GradientCallback = absl::AnyInvocable<void(absl::StatusOr<v1::GradientResponse>)>;
using RecordCallback = absl::AnyInvocable<void(absl::StatusOr<Recordings::Handle>)>;
// What a replay gives is in its buffers.
using ReplayCallback = absl::AnyInvocable<void(absl::StatusOr<ExecuteTiming>)>;
using TuneCallback = absl::AnyInvocable<void(absl::StatusOr<TuneResult>)>;
using ExplainCallback = absl::AnyInvocable<void(absl::StatusOr<Explanation>)>;

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_REQUESTS_H_
