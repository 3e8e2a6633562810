#include "server/compile_worker/compile_workers.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/compile_worker/fault_folder.h"
#include "server/compile_worker/job.h"
#include "server/compile_worker/sandbox.h"
#include "server/compile_worker/zygote.h"

namespace kiln::server {
namespace {

// How often a caller is asked whether it still waits.
constexpr int kLookMs = 5;
// A zygote that has not answered by then is broken.
constexpr int kZygoteMs = 60'000;

absl::Status NoZygote(absl::string_view what) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat("compile workers: ", what));
}

absl::StatusOr<std::pair<Descriptor, Descriptor>> SocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return NoZygote(std::strerror(errno));
  return std::make_pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

// Whether something came, or the other end went, in time.
bool Comes(int socket, int milliseconds) {
  pollfd wanted = {socket, POLLIN, 0};
  int ready;
  do {
    ready = poll(&wanted, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// The same for the same compilation, which a serialized job need not be.
Digest NameOf(const v1::Graph& graph, const v1::Target& target, const compiler::Options& options) {
  Blake3 hasher;
  for (const std::string& part : {graph.SerializeAsString(), target.SerializeAsString(), options.Fingerprint()})
    hasher.Update(Blake3Of(part).view());
  return hasher.Finish();
}

const v1::Graph& GraphOf(const v1::CompileJob& job) {
  return job.has_gradient() ? job.gradient().graph() : job.graph();
}

// The failure of a job, with the name by which its graph can be reported and found.
absl::Status WithName(const absl::Status& status, absl::string_view name) {
  v1::ErrorDetail detail = *DetailOf(status);
  detail.set_field(std::string(name));
  return MakeError(detail, absl::StrCat(status.message(), "; the graph is ", name));
}

// Of the process behind a pidfd; 0 if it is gone.
uint64_t ResidentBytes(int process) {
  std::ifstream about(absl::StrCat("/proc/self/fdinfo/", process));
  std::string word;
  pid_t pid = 0;
  while (about >> word) {
    if (word == "Pid:") about >> pid;
  }
  uint64_t all = 0, resident = 0;
  if (pid > 0) std::ifstream(absl::StrCat("/proc/", pid, "/statm")) >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

CompileWorkers::Worker::~Worker() {
  if (process.valid()) syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

absl::StatusOr<std::unique_ptr<CompileWorkers>> CompileWorkers::Start(const CompileWorkersOptions& options,
                                                                      const v1::CompileJob& warm) {
  std::unique_ptr<CompileWorkers> workers(new CompileWorkers(options, warm.SerializeAsString()));
  {
    absl::MutexLock lock(&workers->mutex_);
    KILN_RETURN_IF_ERROR(workers->StartZygote());
  }
  workers->timer_ = std::thread([self = workers.get()] { self->EndIdleUntilStopped(); });
  return workers;
}

CompileWorkers::~CompileWorkers() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    bell_.Ring();
    idle_.clear();
    EndZygote();
  }
  if (timer_.joinable()) timer_.join();
}

absl::Status CompileWorkers::StartZygote() {
  KILN_ASSIGN_OR_RETURN(auto ends, SocketPair());
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends.second.get(), kZygoteSocket);
  std::string name = "kilnd", flag = kZygoteFlag, memory = absl::StrCat(options_.memory_bytes);
  char* const arguments[] = {name.data(), flag.data(), memory.data(), nullptr};
  std::vector<std::string> kept = BareEnvironment();
  std::vector<char*> environment;
  for (std::string& entry : kept) environment.push_back(entry.data());
  environment.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawn(&child, options_.binary.c_str(), &files, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return NoZygote(absl::StrCat(options_.binary, ": ", std::strerror(failed)));
  zygote_ = child;
  to_zygote_ = std::move(ends.first);
  ends.second = Descriptor();  // so that its end is seen
  KILN_ASSIGN_OR_RETURN(const Descriptor job, SealedMemory(warm_));
  if (SendDescriptor(to_zygote_.get(), kWarm, job.get()) && Comes(to_zygote_.get(), kZygoteMs) &&
      ReceiveDescriptor(to_zygote_.get()).what == kDone)
    return absl::OkStatus();
  EndZygote();
  return NoZygote(absl::StrCat(options_.binary, " ", kZygoteFlag, " does not answer"));
}

void CompileWorkers::EndZygote() {
  to_zygote_ = Descriptor();
  if (zygote_ == 0) return;
  kill(zygote_, SIGKILL);
  while (waitpid(zygote_, nullptr, 0) < 0 && errno == EINTR) {
  }
  zygote_ = 0;
}

absl::StatusOr<std::unique_ptr<CompileWorkers::Worker>> CompileWorkers::Fork() {
  for (int chance = 0; chance < 2; ++chance) {
    if (zygote_ == 0) KILN_RETURN_IF_ERROR(StartZygote());
    KILN_ASSIGN_OR_RETURN(auto ends, SocketPair());
    if (SendDescriptor(to_zygote_.get(), kFork, ends.second.get()) && Comes(to_zygote_.get(), kZygoteMs)) {
      Received born = ReceiveDescriptor(to_zygote_.get());
      if (born.what == kProcess && born.fd.valid()) {
        auto worker = std::make_unique<Worker>();
        worker->socket = std::move(ends.first);
        worker->process = std::move(born.fd);
        ++stats_.born;
        return worker;
      }
      if (born.what == kProcess) return NoZygote("the system starts no process");
    }
    // It is gone: killed for want of memory, perhaps. Its children went with it.
    for (size_t i = 0; i < idle_.size(); ++i) Count(WorkerExit::kZygote);
    idle_.clear();
    EndZygote();
  }
  return NoZygote("the process that workers are born of has ended twice");
}

absl::StatusOr<std::unique_ptr<CompileWorkers::Worker>> CompileWorkers::Take(const TrustDomain& domain) {
  absl::MutexLock lock(&mutex_);
  ++stats_.jobs;
  // The one that was used last is the warmest.
  for (auto at = idle_.rbegin(); at != idle_.rend(); ++at) {
    if ((*at)->domain != domain) continue;
    std::unique_ptr<Worker> worker = std::move(*at);
    idle_.erase(std::next(at).base());
    return worker;
  }
  if (idle_.size() >= std::max(1u, options_.idle)) {
    idle_.erase(idle_.begin());
    Count(WorkerExit::kMadeRoom);
  }
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker, Fork());
  worker->domain = domain;
  return worker;
}

void CompileWorkers::PutBack(std::unique_ptr<Worker> worker) {
  if (++worker->jobs >= options_.jobs || ResidentBytes(worker->process.get()) > options_.max_resident_bytes)
    return Count(WorkerExit::kRecycled);
  absl::MutexLock lock(&mutex_);
  if (idle_.size() >= options_.idle) Count(WorkerExit::kMadeRoom);  // one of them, or this one
  if (idle_.size() >= options_.idle && !idle_.empty()) idle_.erase(idle_.begin());
  worker->idle_since = SteadyNow();
  if (options_.idle > 0) idle_.push_back(std::move(worker));
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

absl::Status CompileWorkers::Wait(const Worker& worker, const runtime::hal::LaunchControl& control, absl::Time end) {
  while (!Comes(worker.socket.get(), kLookMs)) {
    KILN_RETURN_IF_ERROR(control.Check());
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
  const LentJob lent(graph, target, options, observer);
  const absl::Status done = Do(
      lent.job(), [&] { return NameOf(graph, target, options); }, whom,
      [&](v1::CompileJobResult result) {
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
  KILN_RETURN_IF_ERROR(Do(
      ToJob(request, limits), [&] { return Blake3Of(request.SerializeAsString()); }, whom,
      [&](v1::CompileJobResult result) {
        gradient = GradientFromResult(std::move(result));
        return gradient.status();
      }));
  return gradient;
}

absl::Status CompileWorkers::Do(const v1::CompileJob& job, absl::FunctionRef<Digest()> name, const CompileFor& whom,
                                absl::FunctionRef<absl::Status(v1::CompileJobResult)> take) {
  // Of each tenant's by itself: none learns what another's job has done, nor can spoil one for it. A name takes about
  // as long to make as the job does to write, so nobody asks for it while all goes well.
  const auto its_name = [&] {
    Blake3 hasher;
    hasher.Update(whom.domain.view());
    hasher.Update(name().view());
    return hasher.Finish();
  };
  if (!quarantine_.Empty()) {
    const absl::Status free = quarantine_.Check(its_name(), SteadyNow());
    if (!free.ok()) return WithName(free, FaultName(GraphOf(job)));
  }
  const auto memory = SealedMessage(job, [&] { return whom.control.Check(); });
  KILN_RETURN_IF_ERROR(whom.control.Check());
  if (!memory.ok()) return NoZygote(memory.status().message());
  // A worker may have ended while nobody looked: the next one has not.
  std::unique_ptr<Worker> worker;
  for (int chance = 0; chance < 2; ++chance) {
    KILN_ASSIGN_OR_RETURN(worker, Take(whom.domain));
    if (SendDescriptor(worker->socket.get(), kJob, memory->get())) break;
    Count(WorkerExit::kCrashed);  // while it waited
  }
  if (absl::Status wanted = Wait(*worker, whom.control, SteadyNow() + options_.max_time); !wanted.ok()) {
    worker.reset();
    const bool too_long = DetailOf(wanted).has_value() && DetailOf(wanted)->code() == v1::GRAPH_TOO_LARGE;
    if (too_long) quarantine_.Note(its_name(), SteadyNow());
    Count(too_long                           ? WorkerExit::kTooLong
          : absl::IsDeadlineExceeded(wanted) ? WorkerExit::kDeadline
                                             : WorkerExit::kCancelled);
    absl::MutexLock lock(&mutex_);
    ++stats_.killed;
    return wanted;
  }
  const Received answer = ReceiveDescriptor(worker->socket.get());
  const auto crashed = [&](absl::string_view what, WorkerExit cause = WorkerExit::kNonsense) {
    worker.reset();
    Count(cause);
    quarantine_.Note(its_name(), SteadyNow());
    const std::string graph = FaultName(GraphOf(job));
    if (options_.on_fault != nullptr) options_.on_fault(GraphOf(job), graph, what);
    absl::MutexLock lock(&mutex_);
    ++stats_.crashed;
    return WithName(CompilerFault(what), graph);
  };
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
