// A job on its way to a worker, a few nodes of its graph at a time.
//
// Protobuf measures a message before it writes any of it, and a graph of 200,000 nodes takes it up to 30 ms: longer
// than whoever is told to stop may take. But messages that are written one after the other are read as one, whose
// repeated fields are all of theirs. So a job goes as many messages, none of which is large, and between two of them
// the caller is asked whether it is still wanted.
#ifndef KILN_SERVER_COMPILE_WORKER_JOB_PIECES_H_
#define KILN_SERVER_COMPILE_WORKER_JOB_PIECES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/blake3.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/compile_job.pb.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::server {

// What it is made of is not copied, and outlives it. Threads: one.
class JobPieces {
 public:
  // `observer` may be null.
  JobPieces(const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
            const compiler::CompileObserver* observer);
  JobPieces(const v1::GradientRequest& request, const compiler::Limits& limits);
  JobPieces(const v1::Graph& kernel, const v1::Target& target, const compiler::Limits& limits,
            const v1::ChooseJob& choose);
  ~JobPieces();
  JobPieces(const JobPieces&) = delete;
  JobPieces& operator=(const JobPieces&) = delete;

  // From the first again.
  void Begin();
  // Null after the last. It stays as it is until the next call.
  const v1::CompileJob* Next();

  const v1::Graph& graph() const { return graph_; }
  // The same for the same job each time. The error of `wanted`, which is asked for each piece, once it has one.
  absl::StatusOr<Digest> Name(absl::FunctionRef<absl::Status()> wanted);

 private:
  // Takes the nodes of the last piece out of it.
  void TakeBack();

  const v1::Graph& graph_;
  v1::CompileJob piece_;
  v1::Graph* lent_ = nullptr;  // in piece_, where its graph belongs
  const v1::CompileJob first_;
  // What is compiled for, and how: a job says the same in an order that is another each time.
  const Digest circumstances_;
  bool begun_ = false;
  int next_ = 0;  // of the nodes
};

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_JOB_PIECES_H_
