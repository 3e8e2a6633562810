// A Kiln server, as C++ sees it.
//
//   KILN_ASSIGN_OR_RETURN(auto client, Client::Connect("localhost:7437"));
//   KILN_ASSIGN_OR_RETURN(Program program, client->Compile(graph));
//   KILN_ASSIGN_OR_RETURN(DeviceBuffer x, client->Upload(HostTensor::Of<float>({2}, {1, 2})));
//   KILN_ASSIGN_OR_RETURN(RunResults run, program.Run(Arguments().Set(0, x)));
//   KILN_ASSIGN_OR_RETURN(HostTensor y, client->Download(run.results[0].buffer));
//
// Errors: every failure of a call has the server's code and text, and its
// ErrorDetail for kiln::DetailOf (base/error.h).
// Threads: a Client may be used from many threads at once. Calls block.
#ifndef KILN_CLIENT_CPP_CLIENT_H_
#define KILN_CLIENT_CPP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cpp/arrays/host_tensor.h"
#include "client/cpp/device_buffer.h"
#include "client/cpp/program.h"
#include "client/cpp/served/served_model.h"
#include "client/cpp/stream.h"
#include "client/cpp/transport/connection.h"
#include "client/cpp/transport/shared_memory.h"
#include "kiln/v1/collective_service.pb.h"
#include "kiln/v1/device_service.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/session_service.pb.h"

// Who calls what has these includes kiln/v1/debug_service.pb.h.
namespace kiln::v1 {
class EvictResponse;
class ExplainRequest;
class ExplainResponse;
class ExportResponse;
class ImportResponse;
class ListProgramsResponse;
class StateRequest;
class StateResponse;
class TimeRequest;
class TimeResponse;
class TraceRequest;
class TraceResponse;
class TuneRequest;
class TuneResponse_Candidate;  // TuneResponse::Candidate
class TuneResponse_Done;
}  // namespace kiln::v1

namespace kiln::client {

struct GradientOptions {
  // Which result is differentiated, and with respect to which parameters.
  uint32_t result = 0;
  std::vector<uint32_t> wrt_slots;
  // Where the weights of the result's elements come from; a result of one element
  // can do without.
  std::optional<uint32_t> cotangent_slot;
  // The graph's own results come before the gradients.
  bool include_results = false;
};

class Client {
 public:
  // `target` is host:port, or any name gRPC resolves. UNAVAILABLE if no server
  // answers there in time, FAILED_PRECONDITION if it speaks another protocol.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target, ClientOptions options = {});

  // -- Programs
  // HASH_MISMATCH if the server says another hash than the graph has.
  absl::StatusOr<Program> Compile(v1::Graph graph, const v1::CompileOptions& options = {});
  // The program of that graph's hash, 32 bytes, that the server has in memory for this client's device, or for any if
  // the client named none. NEED_GRAPH if there is none; its Run answers the same once the server has forgotten it.
  absl::StatusOr<Program> FindProgram(const std::string& graph_hash);
  // A graph's gradient as a graph: for Compile, or for Graph::Append.
  absl::StatusOr<v1::GradientResponse> Gradient(v1::Graph graph, const GradientOptions& options);

  // Calls of programs that store to their parameters, to be run again in one round trip; results that would be new
  // memory have no place here. BAD_ARGUMENT for another number of places than a program has arguments.
  absl::StatusOr<Recording> Record(const std::vector<RecordedCall>& calls);

  // -- Models that the server serves (client/cpp/served/served_model.h)
  absl::StatusOr<std::vector<ModelVersion>> Models() { return ListModels(*connection_); }
  // Without a version: the greatest that is ready.
  absl::StatusOr<ServedModel> Model(std::string name, std::string version = "") {
    return ServedModel::Find(connection_, std::move(name), std::move(version));
  }

  // -- Buffers
  // Zeros, of `bytes` or of a type.
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes);
  absl::StatusOr<DeviceBuffer> Allocate(v1::DType dtype, const Shape& shape);
  // Sends in chunks; any size.
  absl::Status Write(const DeviceBuffer& buffer, absl::string_view bytes, uint64_t offset = 0);
  // 0 bytes means: to the end.
  absl::StatusOr<std::string> Read(const DeviceBuffer& buffer, uint64_t offset = 0, uint64_t bytes = 0);
  // As many bytes as `target` has: one copy, from gRPC's memory to there.
  absl::Status ReadInto(const DeviceBuffer& buffer, absl::Span<char> target, uint64_t offset = 0);
  // Memory that the server has mapped too: Write from it, and ReadInto it, are one copy,
  // the server's. UNIMPLEMENTED where the server shares none with this process.
  absl::StatusOr<std::shared_ptr<SharedBytes>> AllocateShared(uint64_t bytes);
  // How data moves: "shared memory", "unix socket" or "tcp".
  const char* transport() const;
  // A typed buffer with a tensor's value, and back.
  absl::StatusOr<DeviceBuffer> Upload(const HostTensor& tensor);
  absl::StatusOr<DeviceBuffer> Upload(const HostTensor& tensor, const std::string& device);
  absl::StatusOr<HostTensor> Download(const DeviceBuffer& buffer);
  absl::Status Copy(const v1::BufferRef& from, const v1::BufferRef& to, uint64_t bytes);
  // Repeats a pattern of 1, 2, 4 or 8 bytes; 0 bytes means: to the end.
  absl::Status Fill(const v1::BufferRef& buffer, absl::string_view pattern, uint64_t bytes = 0);
  absl::StatusOr<DeviceBuffer> View(const v1::BufferRef& of, v1::DType dtype, const Shape& shape);
  absl::StatusOr<v1::BufferDescription> Describe(const DeviceBuffer& buffer) { return Describe(buffer.handle()); }
  // Of a handle, whosever it is: UNKNOWN_HANDLE if this client may not know it.
  absl::StatusOr<v1::BufferDescription> Describe(uint64_t handle);

  // -- Without waiting
  // A stream of commands, under the client's session or, where it has none, one of its own, for as long as the server
  // grants. UNIMPLEMENTED from a server that has none. It may outlive the client.
  absl::StatusOr<std::unique_ptr<Stream>> OpenStream(const StreamOptions& options = {});

  // -- Several devices (sharding.h)
  // An equal share of the rows on each, for a parameter that is split; UNSUPPORTED_SHARD if
  // there is none.
  absl::StatusOr<DeviceShards> UploadShards(const HostTensor& tensor, const std::vector<std::string>& devices);
  // The whole on each, for a WholeParam: of shape (1, ...), as the rows of one tensor.
  absl::StatusOr<DeviceShards> UploadWhole(const HostTensor& tensor, const std::vector<std::string>& devices);
  // The whole tensor.
  absl::StatusOr<HostTensor> Download(const DeviceShards& shards);
  // As kiln/v1/collective_service.proto says; by handles. Collective(v1::CollectiveCommand::ALL_REDUCE, request)
  absl::StatusOr<v1::CollectiveResponse> Collective(v1::CollectiveCommand::Kind kind,
                                                    const v1::CollectiveRequest& request);

  // -- The server
  // As it was when it was connected to: devices, and what it can do by the names of docs/protocol.md.
  const v1::ListDevicesResponse& server() const { return server_; }
  bool HasFeature(absl::string_view name) const;
  absl::StatusOr<v1::ListDevicesResponse> Devices();
  // Calls `seen` with every device's state, and again with each that changes, until it
  // returns false or the server stops.
  absl::Status WatchDevices(const std::function<bool(const v1::Device&)>& seen);
  absl::StatusOr<v1::ListProgramsResponse> ListPrograms();
  // What the caller's tenant has and may have; of all tenants with the right to administer alone.
  absl::StatusOr<v1::UsageResponse> Usage(bool all_tenants = false);
  // Where the time of recent calls went (docs/tracing.md).
  absl::StatusOr<v1::TraceResponse> Trace(const v1::TraceRequest& request);
  // Who uses the server now; with tenants the caller's own, or all with the right to administer (docs/operations.md).
  absl::StatusOr<v1::StateResponse> State(const v1::StateRequest& request);
  // Runs again and again, and says what each took of the device.
  absl::StatusOr<v1::TimeResponse> Time(const v1::TimeRequest& request);
  // Has the server forget a program, by its graph's hash of 32 bytes.
  absl::StatusOr<v1::EvictResponse> Evict(const std::string& graph_hash);
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request);
  // Programs that the server has on disk, the caller's own or `all` tenants', as one bundle: `taken` gets it piece by
  // piece until it returns false, which ends the call. What the last message says.
  absl::StatusOr<v1::ExportResponse> ExportPrograms(bool all, const std::function<bool(const std::string&)>& taken);
  // Has the server take such a bundle: `more` gives it piece by piece, of at most 4 MiB, and nothing at its end.
  absl::StatusOr<v1::ImportResponse> ImportPrograms(const std::function<std::string()>& more);
  // Searches schedules (docs/tuning.md): `seen` gets each candidate until it returns
  // false, which ends the search. What was found, once all is over.
  absl::StatusOr<v1::TuneResponse_Done> Tune(const v1::TuneRequest& request,
                                             const std::function<bool(const v1::TuneResponse_Candidate&)>& seen);
  // OK if the server serves; UNAVAILABLE if it says it does not.
  absl::Status Health(const std::string& service = "");

  // Gives handles back now that would go with the next batch.
  void FlushFrees() { connection_->FlushFrees(); }
  // What was sent and received so far, by RPC.
  std::map<std::string, Traffic> traffic() const { return connection_->traffic(); }

 private:
  // At this very address, within `patience`.
  static absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const std::string& target, const ClientOptions& options,
                                                           absl::Duration patience);
  absl::StatusOr<v1::ListDevicesResponse> Devices(absl::Time deadline);

  explicit Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  absl::StatusOr<DeviceBuffer> Allocate(const v1::AllocateRequest& request);
  absl::StatusOr<DeviceBuffer> Allocate(v1::DType dtype, const Shape& shape, const std::string& device);

  bool SharesMemory() const { return shared_memory_ != nullptr && !shared_memory_->lost(); }

  std::shared_ptr<Connection> connection_;
  v1::ListDevicesResponse server_;               // as it said when it was connected to
  std::unique_ptr<SharedMemory> shared_memory_;  // null: there is none
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_CLIENT_H_
