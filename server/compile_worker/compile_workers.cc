#include "server/compile_worker/compile_workers.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <climits>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/compile_worker/fault_folder.h"
#include "server/compile_worker/job.h"
#include "server/compile_worker/zygote.h"

namespace kiln::server {
namespace {

absl::Status NoZygote(absl::string_view what) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat("compile workers: ", what));
}

// The failure of a job, with the name by which its graph can be reported and found.
absl::Status WithName(const absl::Status& status, absl::string_view name) {
  v1::ErrorDetail detail = *DetailOf(status);
  detail.set_field(std::string(name));
  return MakeError(detail, absl::StrCat(status.message(), "; the graph is ", name));
}

// What the process behind a /proc/PID/statm has in memory and shares with no file: not the program's text, which all
// workers have in common. 0 if it is gone.
uint64_t OwnBytes(const Descriptor& statm) {
  char text[128] = {};
  if (!statm.valid() || pread(statm.get(), text, sizeof(text) - 1, 0) <= 0) return 0;
  uint64_t pages = 0, resident = 0, shared = 0;
  if (std::sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &pages, &resident, &shared) != 3) return 0;
  return (resident - std::min(resident, shared)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Of looks at whether a caller still waits, each of which is a look at the memory of all.
constexpr int kLooksPerMemory = 4;

// Whoever took too much memory comes again when others may have ended.
constexpr uint32_t kRetryMs = 1000;

}  // namespace

CompileWorkers::Worker::~Worker() {
  if (process.valid()) syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  memory.Remove(number);
}

absl::StatusOr<std::unique_ptr<CompileWorkers>> CompileWorkers::Start(const CompileWorkersOptions& options,
                                                                      const v1::CompileJob& warm) {
  std::unique_ptr<CompileWorkers> workers(new CompileWorkers(options, warm.SerializeAsString()));
  KILN_RETURN_IF_ERROR(workers->zygote_.Start());
  workers->timer_ = std::thread([self = workers.get()] { self->EndIdleUntilStopped(); });
  return workers;
}

CompileWorkers::~CompileWorkers() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    bell_.Ring();
    idle_.clear();
  }
  if (timer_.joinable()) timer_.join();
}

absl::StatusOr<std::unique_ptr<CompileWorkers::Worker>> CompileWorkers::Take(const CompileFor& whom) {
  {
    absl::MutexLock lock(&mutex_);
    ++stats_.jobs;
    // The one that was used last is the warmest.
    for (auto at = idle_.rbegin(); at != idle_.rend(); ++at) {
      if ((*at)->domain != whom.domain) continue;
      std::unique_ptr<Worker> worker = std::move(*at);
      idle_.erase(std::next(at).base());
      memory_.Begins(worker->number);
      return worker;
    }
    if (idle_.size() >= std::max(1u, options_.idle)) {
      idle_.erase(idle_.begin());
      Count(WorkerExit::kMadeRoom);
    }
  }
  KILN_ASSIGN_OR_RETURN(ZygoteProcess::Child born, zygote_.Fork(whom.control));
  absl::MutexLock lock(&mutex_);
  auto worker = std::make_unique<Worker>(memory_, ++stats_.born, whom.domain);
  worker->socket = std::move(born.socket);
  worker->process = std::move(born.process);
  if (born.anew) {
    for (size_t i = 0; i < idle_.size(); ++i) Count(WorkerExit::kZygote);
    idle_.clear();
  }
  return worker;
}

void CompileWorkers::PutBack(std::unique_ptr<Worker> worker) {
  const uint64_t bytes = OwnBytes(worker->memory_file);
  if (++worker->jobs >= options_.jobs || bytes > options_.max_resident_bytes) return Count(WorkerExit::kRecycled);
  absl::MutexLock lock(&mutex_);
  if (idle_.size() >= options_.idle) Count(WorkerExit::kMadeRoom);  // one of them, or this one
  if (idle_.size() >= options_.idle && !idle_.empty()) idle_.erase(idle_.begin());
  worker->idle_since = SteadyNow();
  if (options_.idle == 0) return;
  memory_.Waits(worker->number, bytes);
  idle_.push_back(std::move(worker));
}

void CompileWorkers::EndIdle(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  while (!idle_.empty() && now - idle_.front()->idle_since >= options_.max_idle) {
    idle_.erase(idle_.begin());
    Count(WorkerExit::kIdle);
  }
}

void CompileWorkers::EndIdleUntilStopped() {
  const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !idle_.empty(); };
  for (;;) {
    absl::Time end;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&any));
      if (stopping_) return;
      end = idle_.front()->idle_since + options_.max_idle;
    }
    if (bell_.Wait(end - SteadyNow())) return;
    EndIdle(SteadyNow());
  }
}

absl::Status CompileWorkers::LookAtMemory(const Worker& worker) {
  const uint64_t bytes = OwnBytes(worker.memory_file);
  switch (memory_.Works(worker.number, bytes)) {
    case WorkerMemory::Verdict::kGoOn: return absl::OkStatus();
    case WorkerMemory::Verdict::kEnd: break;
    case WorkerMemory::Verdict::kEndIdle: {
      absl::MutexLock lock(&mutex_);
      for (size_t i = 0; i < idle_.size(); ++i) Count(WorkerExit::kNoMemory);
      idle_.clear();
      return absl::OkStatus();
    }
  }
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("bytes of all compilations");
  detail.set_limit_value(memory_.most());
  detail.set_used(bytes);  // its own: what others have is theirs to know
  detail.set_retry_after_ms(kRetryMs);
  return MakeError(detail, absl::StrCat("the graphs that are compiled now take more than the ", memory_.most(),
                                        " bytes of memory that this server gives to all, and this one, with ", bytes,
                                        ", is among the largest; try again later, or send it in several programs"));
}

absl::Status CompileWorkers::Wait(const Worker& worker, const runtime::hal::LaunchControl& control, absl::Time end) {
  for (int look = 1; !Comes(worker.socket.get(), kLookMs); ++look) {
    KILN_RETURN_IF_ERROR(control.Check());
    if (look % kLooksPerMemory == 0) KILN_RETURN_IF_ERROR(LookAtMemory(worker));
    if (SteadyNow() >= end) {
      const auto seconds = static_cast<uint64_t>(absl::ToInt64Seconds(options_.max_time));
      return TooLarge("compile seconds", seconds, seconds,
                      absl::StrCat("compiling this graph takes more than ", absl::FormatDuration(options_.max_time),
                                   ", as much as this server gives; send it in several programs"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CompiledProgram> CompileWorkers::Compile(const v1::Graph& graph, const v1::Target& target,
                                                        const compiler::Options& options,
                                                        compiler::CompileObserver* observer, const CompileFor& whom) {
  const absl::Time begin = SteadyNow();
  absl::StatusOr<CompiledProgram> program;
  bool answered = false;
  JobPieces job(graph, target, options, observer);
  const absl::Status done = Do(job, whom, [&](v1::CompileJobResult result) {
    answered = true;
    program = FromResult(std::move(result), observer, whom.stages, begin);
    return program.status();
  });
  // Nobody but the worker knew how far it was.
  if (!answered && whom.stages != nullptr) whom.stages->Add(CompileStage::kWorker, begin, SteadyNow());
  if (!done.ok()) return done;
  return program;
}

absl::StatusOr<v1::GradientResponse> CompileWorkers::Gradient(const v1::GradientRequest& request,
                                                              const compiler::Limits& limits, const CompileFor& whom) {
  absl::StatusOr<v1::GradientResponse> gradient;
  JobPieces job(request, limits);
  KILN_RETURN_IF_ERROR(Do(job, whom, [&](v1::CompileJobResult result) {
    gradient = GradientFromResult(std::move(result));
    return gradient.status();
  }));
  return gradient;
}

absl::StatusOr<compiler::Choices> CompileWorkers::Choose(const v1::Graph& kernel, const v1::Target& target,
                                                         const compiler::Limits& limits, const std::string& from,
                                                         uint32_t most, const CompileFor& whom) {
  v1::ChooseJob choose;
  choose.set_from(from);
  choose.set_most(most);
  absl::StatusOr<compiler::Choices> choices;
  JobPieces job(kernel, target, limits, choose);
  KILN_RETURN_IF_ERROR(Do(job, whom, [&](v1::CompileJobResult result) {
    choices = ChoicesFromResult(std::move(result), most);
    return choices.status();
  }));
  return choices;
}

absl::Status CompileWorkers::Do(JobPieces& job, const CompileFor& whom,
                                absl::FunctionRef<absl::Status(v1::CompileJobResult)> take) {
  // Of each tenant's by itself: none learns what another's job has done, nor can spoil one for it. A name takes about
  // as long to make as the job does to write, so nobody asks for it while all goes well.
  const auto wanted = [&] { return whom.control.Check(); };
  const auto its_name = [&](absl::FunctionRef<absl::Status()> asked) -> absl::StatusOr<Digest> {
    KILN_ASSIGN_OR_RETURN(const Digest name, job.Name(asked));
    Blake3 hasher;
    hasher.Update(whom.domain.view());
    hasher.Update(name.view());
    return hasher.Finish();
  };
  // What has gone wrong is noted whether or not anybody waits.
  const auto note = [&] {
    if (const auto name = its_name([] { return absl::OkStatus(); }); name.ok()) quarantine_.Note(*name, SteadyNow());
  };
  if (!quarantine_.Empty(SteadyNow())) {
    KILN_ASSIGN_OR_RETURN(const Digest name, its_name(wanted));
    const absl::Status free = quarantine_.Check(name, SteadyNow());
    if (!free.ok()) return WithName(free, FaultName(job.graph()));
  }
  job.Begin();
  const auto memory = SealedMessages([&] { return job.Next(); }, wanted);
  KILN_RETURN_IF_ERROR(wanted());
  if (!memory.ok()) return NoZygote(memory.status().message());
  // Workers may have ended while nobody looked, all that wait; one that is born now has not.
  std::unique_ptr<Worker> worker;
  for (uint32_t chance = 0; chance <= options_.idle + 1; ++chance) {
    KILN_ASSIGN_OR_RETURN(worker, Take(whom));
    if (SendDescriptor(worker->socket.get(), kJob, memory->get())) break;
    Count(WorkerExit::kCrashed);  // while it waited
  }
  const auto crashed = [&](absl::string_view what, WorkerExit cause = WorkerExit::kNonsense) {
    worker.reset();
    Count(cause);
    note();
    const std::string graph = FaultName(job.graph());
    if (options_.on_fault != nullptr) options_.on_fault(job.graph(), graph, what);
    absl::MutexLock lock(&mutex_);
    ++stats_.crashed;
    return WithName(CompilerFault(what), graph);
  };
  const absl::Time end = SteadyNow() + options_.max_time;
  absl::Status stopped = Wait(*worker, whom.control, end);
  if (stopped.ok() && !worker->introduced) {
    Received file = ReceiveDescriptor(worker->socket.get());
    if (file.what != kMemory) return crashed("ended before it began", WorkerExit::kCrashed);
    worker->memory_file = std::move(file.fd);
    worker->introduced = true;
    stopped = Wait(*worker, whom.control, end);
  }
  if (!stopped.ok()) {
    worker.reset();
    const v1::ErrorDetail detail = DetailOf(stopped).value_or(v1::ErrorDetail());
    const bool too_long = detail.code() == v1::GRAPH_TOO_LARGE;
    if (too_long) note();
    Count(too_long                             ? WorkerExit::kTooLong
          : detail.code() == v1::OUT_OF_MEMORY ? WorkerExit::kNoMemory
          : absl::IsDeadlineExceeded(stopped)  ? WorkerExit::kDeadline
                                               : WorkerExit::kCancelled);
    absl::MutexLock lock(&mutex_);
    ++stats_.killed;
    return stopped;
  }
  const Received answer = ReceiveDescriptor(worker->socket.get());
  if (answer.what == 0) return crashed("ended before it was done", WorkerExit::kCrashed);
  if (answer.what != kResult || !answer.fd.valid()) return crashed("gave an answer that is none");
  const auto bytes = ReadSealed(answer.fd.get(), options_.max_result_bytes);
  if (!bytes.ok()) return crashed(absl::StrCat("gave an answer that cannot be taken: ", bytes.status().message()));
  v1::CompileJobResult result;
  google::protobuf::io::ArrayInputStream stream(bytes->data(), static_cast<int>(bytes->size()));
  if (bytes->size() > INT_MAX || !result.ParseFromZeroCopyStream(&stream))
    return crashed("gave an answer that cannot be read");
  absl::Status status = take(std::move(result));
  if (const auto detail = DetailOf(status); detail.has_value() && detail->code() == v1::COMPILER_FAULT)
    return crashed("gave an answer that is none");
  PutBack(std::move(worker));
  return status;
}

CompileWorkersStats CompileWorkers::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

}  // namespace kiln::server
