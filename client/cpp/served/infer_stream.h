// Requests for one model, many on their way at a time: one call, to which they are written and from which a thread
// reads their answers.
//
// The server runs them one after the other, and answers in their order. It reads no more than it runs, so a call of
// Infer waits while much is on its way.
#ifndef KILN_CLIENT_CPP_SERVED_INFER_STREAM_H_
#define KILN_CLIENT_CPP_SERVED_INFER_STREAM_H_

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/served/tensors.h"
#include "client/cpp/transport/connection.h"

namespace grpc {
class ByteBuffer;
}  // namespace grpc

namespace kiln::client {

// Threads: any; requests of one thread are in its order.
class InferStream {
 public:
  // `timeout` is the whole stream's, however many requests: then what has no answer ends here, DEADLINE_EXCEEDED, and
  // so does a call that waits. (A request's own timeout the server keeps, and a server that hangs keeps none.)
  InferStream(std::shared_ptr<Connection> connection, std::string model, std::string version,
              absl::Duration timeout = absl::InfiniteDuration());
  // As Cancel.
  ~InferStream();
  InferStream(const InferStream&) = delete;
  InferStream& operator=(const InferStream&) = delete;

  // A request, whose answer is there when the future is. A request that fails ends nothing else; the server tells it
  // as a text alone: UNKNOWN. Where the stream has ended, the future has why: INTERNAL_FAULT after an answer to what
  // was not asked, or whose turn it was not. One that comes twice does no harm.
  std::future<absl::StatusOr<NamedTensors>> Infer(NamedTensors inputs, InferOptions options = {});
  // No more requests. Returns when all have been answered, or the stream has failed.
  absl::Status Close();
  // Ends it at once: what has not been answered is CANCELLED.
  void Cancel();

 private:
  struct Call;  // gRPC's
  using Answer = absl::StatusOr<NamedTensors>;
  struct Due {
    std::promise<Answer> promise;
    std::vector<std::string> outputs;
    std::string id;
  };

  void Read();
  // The failure by which the stream must end, if there is one.
  absl::Status Take(grpc::ByteBuffer& bytes);
  void End(absl::Status why);
  bool ended();

  const std::shared_ptr<Connection> connection_;
  const std::string model_, version_;
  const std::unique_ptr<Call> call_;

  // Held while a request is written, so that they are due in the order of their writing; before mutex_.
  absl::Mutex writing_;
  bool closed_ ABSL_GUARDED_BY(writing_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(writing_) = 0;

  absl::Mutex mutex_;
  std::deque<Due> due_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::string before_;  // the id of the last that was answered; the reader's
  std::thread reader_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_SERVED_INFER_STREAM_H_
