// One Execute, from its arguments to its results.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_EXECUTION_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_EXECUTION_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/exec/executor.h"
#include "server/engine/batching/batch_member.h"
#include "server/engine/executions/arguments.h"
#include "server/engine/executions/requests.h"
#include "server/engine/memory/buffer_table.h"
#include "server/fair/turns.h"
#include "server/metrics/metrics.h"

namespace kiln::server {

// Lives from its program's arrival until its callback has returned, and owns
// itself in between. It waits for its turn (server/fair/turns.h). Uploads, the run and downloads are entries of the
// devices' queues, which keep their order; no thread waits for any of them. A program on one device is handed to its
// queue at once; one on several is many entries of theirs, made as it goes (runtime/exec/task_run.h): `started` and
// `submitted` are not called for it, and its names are made after the run.
class Execution final : public BatchMember, private runtime::RunStart {
 public:
  // `executor`, `collectives`, `buffers`, `turns` and `metrics` outlive the execution.
  Execution(ExecuteRequest request, const Control& control, ExecuteCallback done, runtime::Executor* executor,
            runtime::collective::Collectives* collectives, BufferTable* buffers, Turns* turns,
            uint64_t max_inline_bytes, Metrics* metrics);

  // Before Run() or Answer().
  void Found(ProgramStore::Program program, bool from_cache);

  void Run(absl::Duration waited, absl::AnyInvocable<void(const ExecuteTiming*)> ended) override;
  void Answer(ExecuteResult result, absl::Duration waited) override;
  void Fail(absl::Status status) override;

  const ProgramStore::Program& program() const override { return result_.program; }
  ExecuteRequest& request() override { return request_; }
  const Control& control() const override { return control_; }
  ExecuteTiming& timing() { return result_.timing; }
  // For who wants to know (ExecuteRequest::parts).
  void Note(Part part, absl::Time begin, absl::Time end) {
    if (request_.parts != nullptr) request_.parts->Set(part, begin, end);
  }

 private:
  const runtime::Program& loaded() const { return *result_.program->program; }
  const v1::Signature& signature() const { return loaded().signature(); }
  // Whether a result goes back by value.
  bool IsInline(size_t result) const;
  absl::Status CheckInlineResults(uint64_t& bytes) const;
  // Before any of them is made.
  absl::Status PayForAnswer(uint64_t inline_bytes);
  // Whether each share of each result has a name, or 0.
  absl::Status CheckNames() const;
  // Memory for results that have names already.
  absl::Status MakeNamedResults();
  // Of a result's share that is new memory.
  std::shared_ptr<BufferRecord> RecordOf(size_t result, size_t share, runtime::hal::BufferSlice slice) const;
  // Waits for its turn; then uploads and runs.
  void TakeTurn();
  void OnTurn(absl::StatusOr<Turn> turn);
  // Of the tensors by value.
  uint64_t UploadBytes() const;
  void Upload();
  // Whether what the run reads is healthy still, now that all before it has ended.
  absl::Status Begin() override;
  void Submit();
  void EndRun(const absl::Status& status);
  // Once all that it has changed is settled, as whoever is next may read it; and behind its downloads in the queue, or
  // they would come after whoever is next.
  void EndTurn() { ran_ns_.has_value() ? turn_.End(*ran_ns_) : turn_.End(); }
  // Counts one queue entry as ended; the last one goes on.
  void Arrive(const absl::Status& status);
  void Download();
  void Finish();
  // Lets go of the memory that it read and wrote: whoever is answered may ask for as much at once, and what they were
  // the last to use is free for them by then. Nothing of the run may be looked at after it.
  void LetGo();
  // Puts what is split together.
  void Gather();
  // Gives handles to what stays on the devices: to all of it, or to nothing.
  absl::Status FileResults();
  absl::Status FileShare(size_t result, size_t share, ResultValue::Shard& shard, std::vector<uint64_t>& made);

  ExecuteRequest request_;
  const Control control_;
  ExecuteCallback done_;
  absl::AnyInvocable<void(const ExecuteTiming*)> ended_;
  runtime::Executor* const executor_;
  runtime::collective::Collectives* const collectives_;
  BufferTable* const buffers_;
  Turns* const turns_;
  const uint64_t max_inline_bytes_;
  Metrics* const metrics_;

  BoundArguments bound_;
  Touched touched_;  // if this settles it
  std::atomic<bool> began_{false};
  Place place_ = Place::kCompile;  // how far it has come; kQueue until it has ended, if it is in its queue
  // For each share of each result (runtime::Program::given).
  absl::InlinedVector<runtime::hal::BufferSlice, 4> outputs_;
  absl::InlinedVector<runtime::hal::BufferSlice, 4> named_;  // the same, made before the run
  std::vector<std::vector<std::string>> downloads_;          // of results that are split, share by share
  ExecuteResult result_;
  Turn turn_;                       // until the run has ended
  std::optional<uint64_t> ran_ns_;  // if that went well
  absl::Time turn_asked_, submitted_;
  absl::Time download_begin_;

  // Queue entries under way, in this stage, and one for whoever submits them: uploads and
  // the run, or downloads.
  std::atomic<int> under_way_{0};
  bool downloading_ = false;
  absl::Mutex mutex_;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_EXECUTION_H_
