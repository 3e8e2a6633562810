// A compiled graph, and calls of it.
#ifndef KILN_CLIENT_CPP_PROGRAM_H_
#define KILN_CLIENT_CPP_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/arrays/host_tensor.h"
#include "client/cpp/device_buffer.h"
#include "client/cpp/transport/cancellation.h"
#include "client/cpp/transport/connection.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::client {

// What a program is called with, by slot. Kept from call to call, with single
// arguments set anew. Buffers are named, not owned: they must live until the call
// is over.
class Arguments {
 public:
  // From byte `offset` of the buffer on.
  Arguments& Set(uint32_t slot, const DeviceBuffer& buffer, uint64_t offset = 0);
  // One that a stream made, or will make.
  Arguments& Set(uint32_t slot, const v1::BufferRef& buffer);
  Arguments& Set(uint32_t slot, const HostTensor& tensor);
  // One buffer a device, in the order of the parameter's.
  Arguments& Set(uint32_t slot, const DeviceShards& shards) { return Set(slot, shards.Refs()); }
  Arguments& Set(uint32_t slot, const std::vector<v1::BufferRef>& shards);
  // A variable's value.
  Arguments& Set(uint32_t slot, int64_t value);

  const google::protobuf::RepeatedPtrField<v1::Argument>& list() const { return list_; }

 private:
  v1::Argument& At(uint32_t slot);
  google::protobuf::RepeatedPtrField<v1::Argument> list_;
};

struct RunOptions {
  // RESULT_INLINE brings results back by value; by default they stay on the device.
  v1::ResultMode results = v1::RESULT_HANDLES;
  bool want_timing = false;
  // With inline results: buffers that the call reads stay as they are until it is answered, so it may be run together
  // with others (docs/batching.md).
  bool batch = false;
  // How long the call may take, with all its attempts, where that is less than the client's call_timeout:
  // DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::InfiniteDuration();
  // By which another thread gives the call up: CANCELLED. Outlives the call.
  Cancellation* cancellation = nullptr;
};

// One result: in `buffer`, in `shards` if it is on several devices, in `tensor`, or in none
// where it is a parameter that was updated in place, which the caller has already.
struct RunResult {
  DeviceBuffer buffer;
  DeviceShards shards;
  HostTensor tensor;
};

struct RunResults {
  std::vector<RunResult> results;
  bool from_cache = false;
  v1::Timing timing;
};

// Copied freely; copies are the same program. Threads: any.
class Program {
 public:
  // `compiled` is the answer to a CompileRequest for `graph`.
  Program(std::shared_ptr<Connection> connection, v1::Graph graph, v1::CompileOptions options,
          v1::CompileResponse compiled);

  // Sends the graph's hash and the arguments; the graph itself only if the server
  // has forgotten it (NEED_GRAPH), once, and if this program has one.
  absl::StatusOr<RunResults> Run(const Arguments& arguments, const RunOptions& options = {}) const;

  // 32 bytes.
  const std::string& hash() const { return state_->compiled.graph_hash(); }
  const v1::CompileOptions& options() const { return state_->options; }
  const v1::Signature& signature() const { return state_->compiled.signature(); }
  // Cost, kernels, how long compiling took and whether it was needed.
  const v1::CompileResponse& compiled() const { return state_->compiled; }
  // Empty for one that the server was asked for by its hash (Client::FindProgram).
  const v1::Graph& graph() const { return state_->graph; }
  // Whether one is a copy of the other.
  bool IsSame(const Program& other) const { return state_ == other.state_; }

 private:
  struct State {
    std::shared_ptr<Connection> connection;
    v1::Graph graph;
    v1::CompileOptions options;
    v1::CompileResponse compiled;
  };
  std::shared_ptr<const State> state_;
};

// What a server says that a graph compiles to. INTERNAL_FAULT for what could not be used.
absl::Status CheckCompiled(const v1::CompileResponse& compiled);

// Where an argument of a recorded call lies: in one of the replay's buffers, from byte `offset` on.
struct RecordedMemory {
  uint32_t buffer = 0;
  uint64_t offset = 0;
};

// One call of a recording: for each parameter of the program, in ascending order of slots, its memory.
struct RecordedCall {
  Program program;
  std::vector<RecordedMemory> memory;
};

// Calls in a row that the server keeps, made by Client::Record, and runs again in one round trip. Copied freely.
// Threads: any.
class Recording {
 public:
  // On these buffers. What the server has forgotten is recorded again.
  absl::Status Replay(const std::vector<v1::BufferRef>& buffers) const;

 private:
  friend class Client;
  Recording(std::shared_ptr<Connection> connection, v1::RecordSequenceRequest request, std::vector<Program> programs)
      : connection_(std::move(connection)), request_(std::move(request)), programs_(std::move(programs)) {}
  // The server's name for it, which depends on what is recorded alone.
  absl::StatusOr<std::string> Record() const;
  absl::Status RecordAgain() const;

  std::shared_ptr<Connection> connection_;
  v1::RecordSequenceRequest request_;
  std::vector<Program> programs_;
  std::string hash_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_PROGRAM_H_
