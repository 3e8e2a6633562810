// The C++ client, as the conformance suite drives it: a JSON object a line in, one out.
//
// tests/clients/README.md says what each request means. One that another is done beside (`begin`) has a thread of its
// own, so what has a name is behind a lock, and shared.
#ifndef KILN_TESTS_CLIENTS_ADAPTERS_CPP_ADAPTER_H_
#define KILN_TESTS_CLIENTS_ADAPTERS_CPP_ADAPTER_H_

#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/cpp/client.h"
#include "client/cpp/program.h"
#include "client/cpp/served/served_model.h"
#include "client/cpp/stream.h"
#include "client/cpp/transport/cancellation.h"
#include "tests/clients/adapters/cpp_bench.h"

namespace kiln::adapter {

using Json = nlohmann::json;
using client::Client;
using client::HostTensor;
using client::Program;
using client::Stream;

// What a request asks for, or an error of the client's.
using Answer = absl::StatusOr<Json>;

// An answer that says that the adapter itself could not do it, which is no error of the client's.
Json Bad(absl::string_view message);

// -- What travels
std::string Encoded(absl::string_view bytes);
std::string Decoded(const Json& ask, const char* name);
std::string Text(const Json& ask, const char* name);
// A number, or one as text; 0 if there is none.
uint64_t Number(const Json& said);
v1::Graph GraphOf(const Json& ask);
HostTensor TensorOf(const Json& said);
Json Told(const HostTensor& tensor);
Json Told(const absl::Status& failure);

// The adapter has nothing of that name.
absl::Status Nothing(absl::string_view what, const Json& name);

// A whole run that another thread gives up after a time, if it lasts so long.
class GivesUp {
 public:
  GivesUp(client::Cancellation& of, absl::Duration after)
      : thread_([this, &of, after] {
          if (!over_.WaitForNotificationWithTimeout(after)) of.Cancel();
        }) {}
  ~GivesUp() {
    over_.Notify();
    thread_.join();
  }

 private:
  absl::Notification over_;
  std::thread thread_;
};

// `build`, by the client's functions that make tensors of tensors.
Answer Build(const Json& ask);

// One of several clients, and its stream if requests go by that.
struct Connected {
  // The stream as it is now, opened anew if it has ended; null if requests do not go by one.
  absl::StatusOr<std::shared_ptr<Stream>> stream();

  std::shared_ptr<Client> client;
  bool streams = false;
  absl::Mutex mutex;
  std::shared_ptr<Stream> opened ABSL_GUARDED_BY(mutex);
};

// Memory on a server: owned by its handle or, made by a stream, known by its name alone.
struct Memory {
  v1::BufferRef Ref() const { return owned.valid() ? owned.Ref() : named; }

  std::string client;  // whose it is
  client::DeviceBuffer owned;
  v1::BufferRef named;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  client::Shape shape;
};

// Of one client, like its buffers.
struct Made {
  std::string client;
  Program program;
};
struct Recorded {
  std::string client;
  client::Recording recording;
};

struct Served {
  std::string client;
  client::ServedModel model;
};

class Adapter {
 public:
  // What `request` is answered with, whatever becomes of it.
  Json Do(const Json& ask);

 private:
  Answer Request(const Json& ask);
  Answer Reset();
  Answer Connect(const Json& ask);
  Answer Close(const Json& ask);
  Answer Compile(const Json& ask);
  Answer Gradient(const Json& ask);
  Answer Upload(const Json& ask);
  Answer Allocate(const Json& ask);
  Answer Write(const Json& ask);
  Answer Read(const Json& ask);
  Answer Free(const Json& ask);
  Answer Describe(const Json& ask);
  Answer Run(const Json& ask);
  Answer UncheckedRun(const Json& ask);
  Answer RunFiles(const Json& ask);
  Answer Begin(const Json& ask);
  Answer End(const Json& ask);
  Answer Fence(const Json& ask);
  Answer Record(const Json& ask);
  Answer Replay(const Json& ask);
  Answer Collective(const Json& ask);
  Answer Transfer(const Json& ask);
  Answer Bench(const Json& ask);
  Answer Models(const Json& ask);
  Answer Model(const Json& ask);
  Answer Infer(const Json& ask);
  Answer InferStream(const Json& ask);

  // What has a name; an error that says so if there is nothing of that name.
  absl::StatusOr<std::shared_ptr<Connected>> ClientOf(const Json& ask);
  absl::StatusOr<std::shared_ptr<Memory>> BufferOf(const Json& name);
  absl::StatusOr<Program> ProgramOf(const Json& name);
  absl::StatusOr<client::ServedModel> ModelOf(const Json& name);
  absl::StatusOr<std::vector<v1::BufferRef>> RefsOf(const Json& names);
  void Keep(const std::string& name, Memory memory);

  absl::StatusOr<Memory> Uploaded(Connected& one, const Json& ask, const HostTensor& tensor);
  absl::StatusOr<HostTensor> Fetched(Connected& one, const Memory& memory);
  absl::StatusOr<client::RunResults> Ran(const Program& program, const client::Arguments& arguments, const Json& ask,
                                         v1::ResultMode results);
  // Runs it and keeps its results under these names.
  Answer RunAndKeep(const Program& program, const client::Arguments& arguments, const Json& ask, const Json& names);

  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Connected>> clients_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Made> programs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Memory>> buffers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Recorded> recordings_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Served> models_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::future<Json>> begun_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Measures> measures_;
};

}  // namespace kiln::adapter

#endif  // KILN_TESTS_CLIENTS_ADAPTERS_CPP_ADAPTER_H_
