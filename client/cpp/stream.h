// Commands without waiting: any number of them in one round trip.
//
//   KILN_ASSIGN_OR_RETURN(auto stream, client->OpenStream());
//   const v1::BufferRef x = stream->Upload(HostTensor::Of<float>({2}, {1, 2}));   // nothing is waited for ...
//   const std::vector<v1::BufferRef> y = stream->Execute(program, Arguments().Set(0, x));
//   KILN_ASSIGN_OR_RETURN(std::string bytes, stream->Read(y[0]).get());           // ... but here
//
// Commands take effect in order. What they make has a name at once, of the stream's choice;
// the memory is the stream's session's and ends with it, or with Free. A command that fails
// poisons what it would have made or written: commands that use that get the first failure.
// Fence tells the first failure of a command whose answer nobody waits for, and forgets it.
//
// A connection that is lost is made again for as long as the lease lasts, and what may not
// have arrived is sent again; each command runs once. When the session has expired, every
// answer says so (SESSION_EXPIRED), and it takes a new stream.
//
// Of a client with a session (ClientOptions::lease) the stream is under that: what the stream makes calls may use, and
// the other way round, once a fence has said that it is there. Else the stream has a session of its own.
//
// Threads: any. Nothing waits but the futures, and a command where very much is under way.
#ifndef KILN_CLIENT_CPP_STREAM_H_
#define KILN_CLIENT_CPP_STREAM_H_

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/arrays/host_tensor.h"
#include "client/cpp/program.h"
#include "client/cpp/transport/connection.h"
#include "client/cpp/transport/stream_link.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::client {

struct StreamOptions {
  // How long the session outlives a lost connection; the server may grant less. Of a session that the client has,
  // that says it.
  uint32_t lease_seconds = 30;
  // What may be under way, unconfirmed, before a command waits.
  uint64_t max_commands = 1024;
  uint64_t max_bytes = 16 << 20;
};

class Stream {
 public:
  // Begins a stream, and a session for it where the connection has none. FAILED_PRECONDITION if another stream is under
  // that, which must be destroyed first.
  static absl::StatusOr<std::unique_ptr<Stream>> Open(std::shared_ptr<Connection> connection,
                                                      const StreamOptions& options = {});
  // Waits until all has ended, and ends its own session with what it owns.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // -- Memory. Zeros; on the connection's device.
  v1::BufferRef Allocate(uint64_t bytes);
  v1::BufferRef Allocate(v1::DType dtype, const Shape& shape);
  v1::BufferRef Upload(const HostTensor& tensor);
  // In pieces; any size.
  void Write(const v1::BufferRef& to, absl::string_view bytes);
  // Repeats a pattern of 1, 2, 4 or 8 bytes; 0 bytes means: to the end.
  void Fill(const v1::BufferRef& to, absl::string_view pattern, uint64_t bytes = 0);
  void Copy(const v1::BufferRef& from, const v1::BufferRef& to, uint64_t bytes);
  v1::BufferRef View(const v1::BufferRef& of, v1::DType dtype, const Shape& shape);
  // 0 bytes means: to the end. INTERNAL if another number of them comes.
  std::future<absl::StatusOr<std::string>> Read(const v1::BufferRef& from, uint64_t bytes = 0);
  // What was sent before still has the memory.
  void Free(const std::vector<v1::BufferRef>& buffers);

  // -- Programs
  std::future<absl::StatusOr<v1::CompileResponse>> Compile(v1::Graph graph, const v1::CompileOptions& options = {});
  // Its results, in the signature's order, one on several devices with one a share; one
  // that is a parameter's own memory has no handle (0). `tag` comes back with a failure.
  std::vector<v1::BufferRef> Execute(const Program& program, const Arguments& arguments, const std::string& tag = "");
  void Collective(v1::CollectiveCommand::Kind kind, const v1::CollectiveRequest& request);

  // Ready when all before it has ended: with the first failure that was not reported yet.
  std::future<absl::Status> Fence();

  // OK, or why the stream has ended: then another must be opened.
  absl::Status status() const { return link_->status(); }
  const std::string& token() const { return token_; }

 private:
  Stream(std::shared_ptr<Connection> connection, Session::Commands commands, bool own_session,
         const StreamLink::Limits& limits);
  v1::BufferRef Name();

  const std::shared_ptr<Connection> connection_;
  const std::string token_;
  const bool own_session_;
  std::atomic<uint64_t> next_name_;
  absl::Mutex mutex_;
  // By hash: until when the server is taken to have a program that was sent.
  std::map<std::string, absl::Time> known_ ABSL_GUARDED_BY(mutex_);
  // Gone first: its threads answer to this.
  std::unique_ptr<StreamLink> link_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_STREAM_H_
