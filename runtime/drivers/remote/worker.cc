#include "runtime/drivers/remote/worker.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "base/clock.h"
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

// Whether the bytes of the place that comes next travel apart from the message.
bool ByParcel(cluster::Unpacker rest) {
  rest.Number<uint64_t>();
  return rest.Number<uint64_t>() > kMaxBytesInMessage;
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
  for (const cluster::Range& memory : memory_) munmap(reinterpret_cast<void*>(memory.base), memory.bytes);
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

absl::Status Worker::Read(cluster::Message message) {
  cluster::Unpacker unpacker(message.bytes);
  const auto kind = unpacker.Number<MessageKind>();
  const auto number = unpacker.Number<uint32_t>();
  if (message.from != 0) return cluster::BadMessage("is not of rank 0");
  if (!unpacker.ok() || (kind != MessageKind::kCommand && kind != MessageKind::kStop)) {
    return cluster::BadMessage("is no command");
  }
  if (number >= lanes_.size()) return cluster::BadMessage("is for a lane that this rank has not");
  const absl::string_view rest = unpacker.Rest();
  const auto command = cluster::Unpacker(rest).Number<uint64_t>();
  if (rest.size() < sizeof(command)) return cluster::BadMessage("has no number");
  if (kind == MessageKind::kStop) {
    lanes_[number]->Stop(command);
  } else {
    lanes_[number]->Put(std::string(rest));
  }
  return absl::OkStatus();
}

absl::Status Worker::Do(Lane& lane, Command command, cluster::Unpacker& rest, cluster::Packer& answer) {
  if (!rest.ok()) return cluster::BadMessage("has no command");
  switch (command) {
    case Command::kWrite: return Write(lane, rest);
    case Command::kRead: return Read(lane, rest, answer);
    case Command::kFill: {
      KILN_ASSIGN_OR_RETURN(const Place to, ReadPlace(rest));
      const absl::string_view pattern = rest.Bytes();
      if (!rest.ok()) return cluster::BadMessage("has no pattern");
      host::FillBytes(to.memory, to.bytes, pattern);
      return absl::OkStatus();
    }
    case Command::kClear: {
      KILN_ASSIGN_OR_RETURN(const Place to, ReadPlace(rest));
      Clear(to.memory, to.bytes);
      return absl::OkStatus();
    }
    case Command::kCopy: return Copy(rest);
    case Command::kLoad: return Load(rest, answer);
    case Command::kUnload: {
      const auto module = rest.Number<uint64_t>();
      absl::MutexLock lock(&mutex_);
      if (modules_.erase(module) == 0) return cluster::BadMessage("names no module");
      return absl::OkStatus();
    }
    case Command::kLaunch: return Launch(lane, rest, answer);
    case Command::kTask: return handler_(*transport_, rest.Rest(), memory_);
  }
  return cluster::BadMessage("has no command that this build knows");
}

absl::StatusOr<Worker::Place> Worker::ReadPlace(cluster::Unpacker& rest) const {
  const auto address = rest.Number<uint64_t>(), bytes = rest.Number<uint64_t>();
  if (!rest.ok()) return cluster::BadMessage("names no place");
  if (!cluster::Holds(memory_, address, bytes)) return cluster::BadMessage("names memory that this rank has not given");
  return Place{reinterpret_cast<char*>(address), bytes};
}

absl::Status Worker::GiveUp(const absl::Status& why) {
  transport_->Bury(0, std::string(why.message()));
  return why;
}

absl::Status Worker::Copy(cluster::Unpacker& rest) const {
  const auto from = rest.Number<uint64_t>();
  KILN_ASSIGN_OR_RETURN(const Place to, ReadPlace(rest));
  if (!cluster::Holds(memory_, from, to.bytes)) return cluster::BadMessage("copies what this rank has not given");
  if (to.bytes != 0) std::memmove(to.memory, reinterpret_cast<const char*>(from), to.bytes);
  return absl::OkStatus();
}

absl::Status Worker::Write(const Lane& lane, cluster::Unpacker& rest) {
  const bool by_parcel = ByParcel(rest);
  const auto place = ReadPlace(rest);
  if (!place.ok()) return by_parcel ? GiveUp(place.status()) : place.status();
  if (!by_parcel) {
    const absl::string_view contents = rest.Rest();
    if (contents.size() != place->bytes) return cluster::BadMessage("has not the bytes that it says");
    if (place->bytes != 0) std::memcpy(place->memory, contents.data(), place->bytes);
    return absl::OkStatus();
  }
  // All of them, before the first is awaited.
  std::vector<uint64_t> lengths(rest.Count<uint64_t>(sizeof(uint64_t)));
  uint64_t left = place->bytes;
  for (uint64_t& length : lengths) {
    length = rest.Number<uint64_t>();
    if (!rest.ok() || length > left) return GiveUp(cluster::BadMessage("has parcels that are larger than their place"));
    left -= length;
  }
  if (!rest.ok() || left != 0) return GiveUp(cluster::BadMessage("has parcels that do not fill their place"));
  std::vector<cluster::Transport::ParcelPtr> parcels;
  char* to = place->memory;
  for (const uint64_t length : lengths) {
    parcels.push_back(transport_->Receive(0, TagOf(lane.at()), to, length));
    to += length;
  }
  absl::Status status;
  for (const auto& parcel : parcels) status.Update(transport_->Wait(parcel));
  return status;
}

absl::Status Worker::Read(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer) {
  const bool by_parcel = ByParcel(rest);
  const auto place = ReadPlace(rest);
  if (!place.ok()) return by_parcel ? GiveUp(place.status()) : place.status();
  if (by_parcel) {
    return transport_->Wait(transport_->Send(0, TagOf(lane.at()), place->memory, place->bytes));
  }
  answer.Rest(absl::string_view(place->memory, place->bytes));
  return absl::OkStatus();
}

absl::Status Worker::Load(cluster::Unpacker& rest, cluster::Packer& answer) {
  Loaded loaded;
  loaded.device = rest.Number<uint32_t>();
  const absl::string_view bytes = rest.Rest();
  v1::Executable executable;
  if (!rest.ok() || bytes.size() > INT_MAX ||
      !executable.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return cluster::BadMessage("has no executable");
  }
  if (loaded.device >= devices_.size()) return cluster::BadMessage("loads for a device that this rank has not");
  loaded.in_memory.resize(executable.kernels_size());
  const auto note = [&](const v1::Step& step) {
    if (step.kernel() >= loaded.in_memory.size()) return false;
    std::vector<bool>& in_memory = loaded.in_memory[step.kernel()];
    in_memory.clear();
    for (const v1::Operand& operand : step.operands()) {
      in_memory.push_back(operand.space() != v1::Operand::VARIABLE);
    }
    return true;
  };
  for (const v1::Preparation& preparation : executable.preparations()) {
    if (!note(preparation.step())) return cluster::BadMessage("has a step of no kernel");
  }
  for (const v1::Step& step : executable.steps()) {
    if (!note(step)) return cluster::BadMessage("has a step of no kernel");
  }
  KILN_ASSIGN_OR_RETURN(loaded.module, devices_[loaded.device]->LoadModule(executable));
  absl::MutexLock lock(&mutex_);
  answer.Number(++last_module_);
  modules_[last_module_] = std::move(loaded);
  return absl::OkStatus();
}

absl::StatusOr<Worker::Loaded> Worker::Find(const Lane& lane, uint64_t module) {
  absl::MutexLock lock(&mutex_);
  const auto found = modules_.find(module);
  if (found == modules_.end() || found->second.device != lane.number()) {
    return cluster::BadMessage("names no module of this device");
  }
  return found->second;
}

absl::Status Worker::ReadSteps(cluster::Unpacker& rest, const Loaded& loaded, std::vector<hal::LaunchStep>& steps,
                               std::vector<void*>& operands) const {
  const cluster::Range& memory = memory_[loaded.device];
  steps.resize(rest.Count<uint32_t>(2 * sizeof(uint32_t)));
  for (hal::LaunchStep& step : steps) {
    step.kernel = rest.Number<uint32_t>();
    step.first_operand = static_cast<uint32_t>(operands.size());
    step.operand_count = rest.Count<uint32_t>(sizeof(void*));
    if (!rest.ok() || step.kernel >= loaded.in_memory.size()) return cluster::BadMessage("launches no kernel");
    const std::vector<bool>& in_memory = loaded.in_memory[step.kernel];
    if (step.operand_count != in_memory.size()) return cluster::BadMessage("has not the operands of its kernel");
    for (const bool is_address : in_memory) {
      const auto operand = rest.Number<uint64_t>();
      if (is_address && !memory.Holds(operand, 0)) return cluster::BadMessage("launches on memory of another");
      operands.push_back(reinterpret_cast<void*>(operand));
    }
  }
  return rest.ok() ? absl::OkStatus() : cluster::BadMessage("ends within its launches");
}

absl::Status Worker::Launch(const Lane& lane, cluster::Unpacker& rest, cluster::Packer& answer) {
  KILN_ASSIGN_OR_RETURN(const Loaded loaded, Find(lane, rest.Number<uint64_t>()));
  hal::LaunchControl control{&lane.stop()};
  if (const auto left_ns = rest.Number<int64_t>(); left_ns != 0) {
    control.deadline = SteadyNow() + absl::Nanoseconds(left_ns);
  }
  std::vector<hal::LaunchStep> steps;
  std::vector<void*> operands;
  KILN_RETURN_IF_ERROR(ReadSteps(rest, loaded, steps, operands));
  // Launches belong into the queue, which is idle: the lane alone submits to it.
  absl::Status status;
  uint32_t launched = 0;
  absl::Notification ended;
  devices_[lane.number()]->queue().Submit(
      [&] {
        status = loaded.module->LaunchAll(steps, operands.data(), control, launched);
        ended.Notify();
      },
      0);
  ended.WaitForNotification();
  answer.Number(launched);
  return status;
}

}  // namespace kiln::runtime::remote
