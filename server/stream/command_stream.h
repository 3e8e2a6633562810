// The command stream: a client sends commands without waiting, and they take effect as
// if it had waited for each.
//
// Commands are begun in the order of their arrival, on the thread that brings them, and
// handed to their devices' queues. A queue keeps its order, so what is begun later sees
// what was begun before; and while one device works, commands for another go on. They
// end in any order, but are retired in their own: then it is known what went wrong
// before each, its poison is passed on, and its answer goes out. So neither causes nor
// answers depend on how fast a device is.
//
// A stream may outlive the connection that it came by (session_service.proto): what
// was accepted goes on, and the next connection gets the answers that the client lacks.
#ifndef KILN_SERVER_STREAM_COMMAND_STREAM_H_
#define KILN_SERVER_STREAM_COMMAND_STREAM_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "server/engine/engine.h"
#include "server/engine/memory/session.h"
#include "server/stream/answers.h"
#include "server/stream/command.h"

namespace kiln::server {

// A connection, as the stream sees it.
class Outlet {
 public:
  virtual ~Outlet() = default;
  // There may be something new in Next() or HasRoom(). From any thread; must not block.
  virtual void Wake() = 0;
};

// Safe from any thread; nothing here blocks. Outlets are told apart by address.
class CommandStream final : public SessionStream, public std::enable_shared_from_this<CommandStream> {
 public:
  // Names and memory are `session`'s. A stream that is not resumable is the session's
  // whole purpose: both end with its connection, and what still runs is cancelled, or at
  // `deadline`.
  CommandStream(Engine& engine, SessionPtr session, bool resumable, absl::Time deadline);

  // -- For the connection
  struct Resumed {
    uint64_t accepted = 0;
    uint64_t answers_lost = 0;
  };
  // From now on `outlet` has the stream; one that had it ends. The client has the answers
  // of all commands up to `acknowledged`.
  Resumed Connect(std::shared_ptr<Outlet> outlet, uint64_t acknowledged);
  // The connection is gone. Nothing if it has not got the stream.
  void Disconnect(const Outlet* outlet);

  // One command, with its request; `guard` is held while it is under way.
  void Accept(const Outlet* outlet, std::unique_ptr<Command> command, const std::shared_ptr<const void>& guard);
  // No more commands come. Once all are answered, the connection ends so; the first
  // such status stays.
  void Close(const Outlet* outlet, absl::Status status);

  // Whether Accept may be called: there is no more under way than the limits say.
  bool HasRoom(const Outlet* outlet) const;

  // What the connection is to do next: send an answer, end, or neither.
  struct Event {
    AnswerPtr answer;
    absl::optional<absl::Status> end;
  };
  Event Next(const Outlet* outlet);
  // To be called when answers have been taken, without any lock that Wake takes.
  void Continue();

  void OnSessionEnd() override;
  Use use() const override;

 private:
  // Why the next command is not begun.
  enum class Stall {
    kNone,
    kLast,     // the last one is to have its program, or to end
    kIdle,     // the last one lacked memory: it is begun again when no other is under way
    kAnswers,  // the last one reads more than the connection has taken
  };

  // -- Beginning commands, one at a time (begin.cc)
  void Begin(Command& command);
  void Allocate(Command& command);
  void View(Command& command);
  void Write(Command& command);
  void Fill(Command& command);
  void Copy(Command& command);
  void Free(Command& command);
  void Compile(Command& command);
  void Replay(Command& command);
  void Collective(Command& command);
  // (begin_execute.cc)
  void Execute(Command& command);
  void OnStarted(Command& command, const runtime::Program& program, const BoundArguments& bound, uint64_t inline_bytes);
  void NoteTouched(Command& command);
  void OnExecuted(Command& command, absl::StatusOr<ExecuteResult> result);
  // (begin_read.cc)
  void Read(Command& command);
  void ReadOn(Command& command);
  absl::StatusOr<v1::SubmitResponse*> AddPiece(Command& command, uint64_t size, bool more);
  bool WaitForAnswers(Command& command);
  // A piece has come, or no further one will be asked for.
  void OnPiece(Command& command, const absl::Status& status, bool data);

  // For what it has done: observers know by it whose that is.
  Control ControlOf(const Command& command) const {
    Control control = control_;
    control.trace = command.trace.number();
    return control;
  }
  // Notes memory as read, written, or overwritten: `bytes`, or all that are left.
  using Bytes = absl::optional<uint64_t>;
  void Reads(Command& command, const BufferAddress& at, Bytes bytes = absl::nullopt);
  void Writes(Command& command, const BufferAddress& at, Bytes bytes = absl::nullopt);
  void Overwrites(Command& command, const BufferAddress& at, Bytes bytes);
  // Takes a name for what the command makes.
  absl::Status Reserve(Command& command, uint64_t handle);
  // Whether poison is known to stop a command: nothing before it can heal anything more.
  bool IsStopped(const Command& command) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return under_way_.front().get() == &command && command.touched.Cause() != nullptr;
  }

  // -- Order
  // Nothing of the command may be touched after it.
  void Complete(Command& command, absl::Status status);
  // Begins what can be begun, unless another thread is at it.
  void Pump();
  void Wait(Command& command, Stall why);
  // For a command that lacked memory: whether it is to be begun again, when no other is
  // under way. So it is once.
  bool WaitForOthers(Command& command);
  // Goes through each device's queue, so that what ran there has let its memory go.
  void PassQueues(size_t first);
  // Its answers will have so many bytes.
  void Expect(Command& command, uint64_t bytes);
  // The command is in its device's queue, and no longer holds up others.
  void Submitted(uint64_t command_id);

  using Retired = absl::InlinedVector<std::unique_ptr<Command>, 4>;
  void Retire(Retired& retired) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RetireOne(Command& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps when its parts were.
  void Trace(const Command& command);
  void Release(Command& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoomLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool AnswersHaveRoom() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool QuotaHasRoom() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool CanGoOn() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool Ended() const { return cancelled_.load(std::memory_order_relaxed); }

  Engine& engine_;
  const SessionPtr session_;
  const bool resumable_;
  const StreamLimits limits_;
  std::atomic<bool> cancelled_{false};
  const Control control_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<Outlet> outlet_ ABSL_GUARDED_BY(mutex_);
  // Of this connection.
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool session_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // The last command ever accepted.
  uint64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  // Accepted, not begun; then under way; then answered.
  std::deque<std::unique_ptr<Command>> pending_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Command>> under_way_ ABSL_GUARDED_BY(mutex_);
  Answers answers_ ABSL_GUARDED_BY(mutex_);
  uint64_t payload_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of answers that are being made.
  uint64_t coming_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Somebody is in Pump.
  bool beginning_ ABSL_GUARDED_BY(mutex_) = false;
  Stall stall_ ABSL_GUARDED_BY(mutex_) = Stall::kNone;
  // Of Stall::kIdle: the time has come.
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;
  Command* stalled_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // HasRoom said no, and the connection waits to be woken.
  mutable bool parked_ ABSL_GUARDED_BY(mutex_) = false;
};

// COMMAND_ORDER.
absl::Status OutOfOrder(absl::string_view message);

}  // namespace kiln::server

#endif  // KILN_SERVER_STREAM_COMMAND_STREAM_H_
