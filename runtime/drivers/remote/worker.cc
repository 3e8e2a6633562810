#include "runtime/drivers/remote/worker.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/drivers/host/fill_bytes.h"

namespace kiln::runtime::remote {
namespace {

constexpr uint64_t kPage = 4096;
// Addresses set aside for each byte that may be in use, so that what lies between
// buffers does not matter.
constexpr uint64_t kReach = 2;

void Clear(char* begin, uint64_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(begin);
  if (address % kPage == 0 && bytes % kPage == 0) {
    // The next to look at them finds new pages, which are zero.
    KILN_CHECK(madvise(begin, bytes, MADV_DONTNEED) == 0);
  } else {
    std::memset(begin, 0, bytes);
  }
}

}  // namespace

// A thread, and what it has to do.
class Worker::Lane {
 public:
  Lane(Worker* worker, uint32_t number) : number_(number), worker_(worker), thread_([this] { Main(); }) {
    pthread_setname_np(thread_.native_handle(), "kiln-lane");
  }
  ~Lane() {
    stop_.store(true);
    Put(std::string());
    thread_.join();
  }

  // From the command's number on.
  void Put(std::string command) {
    absl::MutexLock lock(&mutex_);
    commands_.push_back(std::move(command));
  }
  void Stop(uint64_t number) {
    absl::MutexLock lock(&mutex_);
    if (number == at_) stop_.store(true);
    if (number > at_) unwanted_.insert(number);
  }

  uint32_t number() const { return number_; }
  // The number of the command that is under way, for the lane's own thread.
  uint64_t at() const {
    absl::MutexLock lock(&mutex_);
    return at_;
  }
  // Set while the command that is under way is not wanted.
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  void Main() {
    for (std::string command = Next(); !command.empty(); command = Next()) {
      cluster::Unpacker rest(command);
      const auto number = rest.Number<uint64_t>();
      Take(number);
      cluster::Packer answer;
      const absl::Status status = worker_->Do(*this, rest.Number<Command>(), rest, answer);
      cluster::Packer message = NewMessage(MessageKind::kAnswer);
      message.Number(number);
      PackStatus(status, message);
      worker_->transport_->Tell(0, message.Rest(answer.Take()).Take());
    }
  }

  std::string Next() {
    const auto any = [this] {
      mutex_.AssertReaderHeld();
      return !commands_.empty();
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&any));
    std::string command = std::move(commands_.front());
    commands_.pop_front();
    return command;
  }

  void Take(uint64_t number) {
    absl::MutexLock lock(&mutex_);
    at_ = number;
    stop_.store(unwanted_.count(number) != 0);
    unwanted_.erase(unwanted_.begin(), unwanted_.upper_bound(number));
  }

  const uint32_t number_;
  Worker* const worker_;
  mutable absl::Mutex mutex_;
  std::deque<std::string> commands_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> unwanted_ ABSL_GUARDED_BY(mutex_);
  uint64_t at_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Worker::Worker(std::vector<std::unique_ptr<hal::Device>> devices, TaskHandler handler)
    : devices_(std::move(devices)), handler_(std::move(handler)) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::Make(std::vector<std::unique_ptr<hal::Device>> devices,
                                                     TaskHandler handler) {
  std::unique_ptr<Worker> worker(new Worker(std::move(devices), std::move(handler)));
  for (const auto& device : worker->devices_) {
    const uint64_t bytes = (device->stats().memory.limit_bytes * kReach / kPage + 1) * kPage;
    void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      return MakeError(v1::OUT_OF_MEMORY, absl::StrCat("no ", bytes, " bytes of addresses for ", device->name(),
                                                       "; see --cpu_memory_bytes"));
    }
    worker->memory_.push_back({reinterpret_cast<uint64_t>(base), bytes});
  }
  return worker;
}

Worker::~Worker() {
  lanes_.clear();
  {
    absl::MutexLock lock(&mutex_);
    modules_.clear();
  }
  for (const Memory& memory : memory_) munmap(reinterpret_cast<void*>(memory.base), memory.bytes);
}

void Worker::Begin(cluster::Transport* transport, const std::string& host) {
  transport_ = transport;
  for (uint32_t i = 0; i < devices_.size() + 1; ++i) lanes_.push_back(std::make_unique<Lane>(this, i));
  Hello hello;
  hello.host = host;
  hello.process = getpid();
  for (size_t i = 0; i < devices_.size(); ++i) {
    const hal::Device& device = *devices_[i];
    hello.devices.push_back({std::string(device.description()), device.target(), memory_[i].base, memory_[i].bytes,
                             device.stats().memory.limit_bytes});
  }
  transport->Tell(0, Pack(hello));
}

void Worker::Read(cluster::Message message) {
  cluster::Unpacker unpacker(message.bytes);
  const auto kind = unpacker.Number<MessageKind>();
  Lane& lane = *lanes_.at(unpacker.Number<uint32_t>());
  if (kind == MessageKind::kStop) return lane.Stop(unpacker.Number<uint64_t>());
  lane.Put(std::string(unpacker.Rest()));
}

absl::Status Worker::Do(Lane& lane, Command command, cluster::Unpacker& rest, cluster::Packer& answer) {
  uint64_t bytes = 0;
  switch (command) {
    case Command::kWrite: return Write(lane, rest);
    case Command::kRead: return Read(lane, rest, answer);
    case Command::kFill: {
      char* const to = Place(rest, bytes);
      host::FillBytes(to, bytes, rest.Bytes());
      return absl::OkStatus();
    }
    case Command::kClear: {
      char* const to = Place(rest, bytes);
      Clear(to, bytes);
      return absl::OkStatus();
    }
    case Command::kCopy: {
      auto* const from = reinterpret_cast<const char*>(rest.Number<uint64_t>());
      char* const to = Place(rest, bytes);
      if (bytes != 0) std::memmove(to, from, bytes);
      return absl::OkStatus();
    }
    case Command::kLoad: return Load(rest, answer);
    case Command::kUnload: {
      const auto module = rest.Number<uint64_t>();
      absl::MutexLock lock(&mutex_);
      modules_.erase(module);
      return absl::OkStatus();
    }
    case Command::kLaunch: return Launch(lane, rest, answer);
    case Command::kTask: return handler_(*transport_, rest.Rest());
  }
  return absl::InternalError("a command of another build");
}

char* Worker::Place(cluster::Unpacker& rest, uint64_t& bytes) const {
  const auto address = rest.Number<uint64_t>();
  bytes = rest.Number<uint64_t>();
  KILN_CHECK(std::any_of(memory_.begin(), memory_.end(), [&](const Memory& memory) {
    return address >= memory.base && address - memory.base <= memory.bytes &&
           bytes <= memory.bytes - (address - memory.base);
  }));
  return reinterpret_cast<char*>(address);
}

absl::Status Worker::Write(const Lane& lane, cluster::Unpacker& rest) {
  uint64_t bytes;
  char* to = Place(rest, bytes);
  if (bytes <= kMaxBytesInMessage) {
    const absl::string_view contents = rest.Rest();
    KILN_CHECK(contents.size() == bytes);
    if (bytes != 0) std::memcpy(to, contents.data(), bytes);
    return absl::OkStatus();
  }
  std::vector<cluster::Transport::ParcelPtr> parcels;
  for (auto pieces = rest.Number<uint64_t>(); pieces > 0; --pieces) {
    const auto length = rest.Number<uint64_t>();
    KILN_CHECK(length <= bytes);
    parcels.push_back(transport_->Receive(0, TagOf(lane.at()), to, length));
    to += length;
    bytes -= length;
  }
  absl::Status status;
  for (const auto& parcel : parcels) status.Update(transport_->Wait(parcel));
  return status;
}

absl::Status Worker::Read(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer) {
  uint64_t bytes;
  const char* const from = Place(rest, bytes);
  if (bytes > kMaxBytesInMessage) return transport_->Wait(transport_->Send(0, TagOf(lane.at()), from, bytes));
  answer.Rest(absl::string_view(from, bytes));
  return absl::OkStatus();
}

absl::Status Worker::Load(cluster::Unpacker& rest, cluster::Packer& answer) {
  hal::Device& device = *devices_.at(rest.Number<uint32_t>());
  const absl::string_view bytes = rest.Rest();
  v1::Executable executable;
  KILN_CHECK(executable.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<hal::Module> module, device.LoadModule(executable));
  absl::MutexLock lock(&mutex_);
  answer.Number(++last_module_);
  modules_[last_module_] = std::move(module);
  return absl::OkStatus();
}

absl::Status Worker::Launch(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer) {
  std::shared_ptr<hal::Module> module;
  {
    const auto number = rest.Number<uint64_t>();
    absl::MutexLock lock(&mutex_);
    module = modules_.at(number);
  }
  hal::LaunchControl control{&lane.stop()};
  if (const auto left_ns = rest.Number<int64_t>(); left_ns != 0) {
    control.deadline = absl::Now() + absl::Nanoseconds(left_ns);
  }
  std::vector<hal::LaunchStep> steps(rest.Number<uint32_t>());
  std::vector<void*> operands;
  for (hal::LaunchStep& step : steps) {
    step.kernel = rest.Number<uint32_t>();
    step.first_operand = static_cast<uint32_t>(operands.size());
    step.operand_count = rest.Number<uint32_t>();
    for (uint32_t i = 0; i < step.operand_count; ++i) operands.push_back(rest.Number<void*>());
  }
  // Launches belong into the queue, which is idle: the lane alone submits to it.
  absl::Status status;
  uint32_t launched = 0;
  absl::Notification ended;
  devices_[lane.number()]->queue().Submit(
      [&] {
        status = module->LaunchAll(steps, operands.data(), control, launched);
        ended.Notify();
      },
      0);
  ended.WaitForNotification();
  answer.Number(launched);
  return status;
}

}  // namespace kiln::runtime::remote
