#include "tests/support/fake_gpu/world.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace kiln::testing::fake_gpu {
namespace {

constexpr uint64_t kPage = 4096;
constexpr char kAny[] = "any";

char* At(uint64_t address) { return reinterpret_cast<char*>(address); }

}  // namespace

bool IsLoss(int code) {
  const bool about_peers = (code >= 704 && code <= 705) || (code >= 711 && code <= 713);
  return code == 46 || code == 214 || (code >= 700 && code < 720 && !about_peers) || code == 999;
}

class World::Open {
 public:
  Open(World& world, int device) : world_(world), device_(device) { Protect(PROT_READ | PROT_WRITE); }
  ~Open() { Protect(PROT_NONE); }

 private:
  void Protect(int how) {
    for (const auto& [begin, block] : world_.blocks_) {
      if (block.device == device_) mprotect(At(begin), block.reserved, how);
    }
  }
  World& world_;
  const int device_;
};

World::World() {
  Reset();
  const char* commands = std::getenv("KILN_FAKE_GPU");
  std::stringstream lines(commands == nullptr ? "" : commands);
  for (std::string line; std::getline(lines, line, ';');) Control(line);
}

void World::Reset() {
  settings_ = {{"devices", 1}, {"memory", 64 << 20}};
  lost_.clear();
  failures_.clear();
  counts_.clear();
  calls_.clear();
}

uint64_t World::setting(const std::string& name) const {
  const auto found = settings_.find(name);
  return found == settings_.end() ? 0 : found->second;
}

const char* World::Control(const std::string& command) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  std::stringstream words(command);
  std::string verb, name;
  words >> verb;
  answer_.clear();
  if (verb == "set") {
    uint64_t value = 0;
    words >> name >> value;
    settings_[name] = value;
  } else if (verb == "fail") {
    uint64_t number = 0;
    int code = 0;
    words >> name >> number >> code;
    failures_[name][counts_[name] + number] = code;
  } else if (verb == "lose") {
    int device = 0, code = 0;
    words >> device >> code;
    lost_[device] = code;
  } else if (verb == "forget") {
    int device = 0;
    words >> device;
    Forget(device);
  } else if (verb == "calls") {
    for (const std::string& call : calls_) answer_ += call + "\n";
  } else if (verb == "count") {
    answer_ = std::to_string(counts_[kAny]);
  } else if (verb == "live") {
    answer_ = Live();
  } else if (verb == "reset") {
    Reset();
  } else {
    answer_ = "no such command";
  }
  return answer_.c_str();
}

std::string World::Live() const {
  int contexts = 0;
  for (const auto& [device, held] : contexts_) contexts += held;
  std::stringstream text;
  text << "memory " << blocks_.size() << ", pinned " << pinned_.size() << ", streams " << streams_.size() << ", events "
       << events_.size() << ", graphs " << graphs_.size() << ", modules " << modules_.size() << ", contexts "
       << contexts << ", communicators " << communicators_;
  return text.str();
}

void World::Note(const std::string& line) { calls_.push_back(line); }

int World::Enter(const std::string& call, int device) {
  for (const std::string& name : {call, std::string(kAny)}) {
    const uint64_t number = ++counts_[name];
    const auto& failures = failures_[name];
    const auto found = failures.find(number);
    if (found == failures.end()) continue;
    if (name != kAny) ++counts_[kAny];
    return IsLoss(found->second) ? Lose(device, found->second) : found->second;
  }
  const auto lost = lost_.find(device);
  return lost == lost_.end() ? kSuccess : lost->second;
}

int World::Lose(int device, int code) {
  if (IsLoss(code)) lost_[device] = code;
  return code;
}

void World::Forget(int device) {
  const auto drop = [device](auto& things, const auto& device_of) {
    for (auto it = things.begin(); it != things.end();)
      it = device_of(*it) == device ? things.erase(it) : std::next(it);
  };
  for (const auto& [address, block] : blocks_) {
    if (block.device == device) munmap(At(address), block.reserved);
  }
  drop(blocks_, [](const auto& entry) { return entry.second.device; });
  drop(pinned_, [](const auto& entry) { return entry.second.device; });
  drop(streams_, [](const auto& entry) { return entry.second->device; });
  drop(events_, [](const auto& entry) { return entry.second->device; });
  drop(graphs_, [](const auto& entry) { return entry.second->device; });
  drop(functions_, [](const auto& entry) { return entry.second->module->device; });
  drop(modules_, [](const auto& entry) { return entry.second->device; });
}

int World::Allocate(int device, uint64_t bytes, uint64_t* address) {
  if (bytes == 0) return kInvalidValue;
  uint64_t used = 0;
  for (const auto& [begin, block] : blocks_) used += block.device == device ? block.bytes : 0;
  if (bytes > setting("memory") - std::min(used, setting("memory"))) return kOutOfMemory;
  const uint64_t reserved = (bytes + kPage - 1) / kPage * kPage;
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  std::memset(memory, 0xa5, reserved);  // what somebody left there
  mprotect(memory, reserved, PROT_NONE);
  *address = reinterpret_cast<uint64_t>(memory);
  blocks_[*address] = {device, bytes, reserved};
  return kSuccess;
}

int World::Free(uint64_t address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return kInvalidValue;
  // As the vendors' do, it waits for all that may use it.
  for (const auto& [key, stream] : streams_) {
    if (stream->device == found->second.device) RunUntil(*stream, stream->asked);
  }
  munmap(At(address), found->second.reserved);
  blocks_.erase(address);
  return kSuccess;
}

int World::AllocatePinned(int device, void** memory, uint64_t bytes) {
  auto made = std::make_unique_for_overwrite<char[]>(bytes);
  *memory = made.get();
  pinned_[*memory] = {device, std::move(made)};
  return kSuccess;
}

int World::FreePinned(void* memory) { return pinned_.erase(memory) == 1 ? kSuccess : kInvalidValue; }

bool World::Owns(int device, uint64_t address, uint64_t bytes) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return false;
  const auto& [begin, block] = *--after;
  return block.device == device && address - begin <= block.bytes && bytes <= block.bytes - (address - begin);
}

int World::CopyIn(void* stream, const void* from, uint64_t to, uint64_t bytes) {
  const auto of = StreamAt(stream);
  if (of == nullptr) return kInvalidHandle;
  if (!Owns(of->device, to, bytes)) return kInvalidValue;
  return Ask(stream, [this, device = of->device, from, to, bytes] {
    const Open open(*this, device);
    std::memcpy(At(to), from, bytes);
    return kSuccess;
  });
}

int World::CopyOut(void* stream, uint64_t from, void* to, uint64_t bytes) {
  const auto of = StreamAt(stream);
  if (of == nullptr) return kInvalidHandle;
  if (!Owns(of->device, from, bytes)) return kInvalidValue;
  return Ask(stream, [this, device = of->device, from, to, bytes] {
    const Open open(*this, device);
    std::memcpy(to, At(from), bytes);
    return kSuccess;
  });
}

int World::CopyInside(void* stream, uint64_t from, uint64_t to, uint64_t bytes) {
  const auto of = StreamAt(stream);
  if (of == nullptr) return kInvalidHandle;
  if (!Owns(of->device, from, bytes) || !Owns(of->device, to, bytes)) return kInvalidValue;
  // What that would do is not said, so it is not allowed.
  if (from < to + bytes && to < from + bytes) return kInvalidValue;
  return Ask(stream, [this, device = of->device, from, to, bytes] {
    const Open open(*this, device);
    std::memcpy(At(to), At(from), bytes);
    return kSuccess;
  });
}

int World::CopyFromPeer(void* stream, int peer, uint64_t from, uint64_t to, uint64_t bytes) {
  const auto of = StreamAt(stream);
  if (of == nullptr) return kInvalidHandle;
  if (!Owns(peer, from, bytes) || !Owns(of->device, to, bytes)) return kInvalidValue;
  return Ask(stream, [this, device = of->device, peer, from, to, bytes] {
    const Open target(*this, device), source(*this, peer);
    std::memcpy(At(to), At(from), bytes);
    return kSuccess;
  });
}

void World::Together(const std::vector<void*>& streams, std::shared_ptr<bool> aborted, std::function<int()> work) {
  struct Meeting {
    std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> all;
    bool done = false;
  };
  const auto meeting = std::make_shared<Meeting>();
  for (void* stream : streams) {
    const auto of = StreamAt(stream);
    if (of != nullptr) meeting->all.emplace_back(of, of->asked);
  }
  for (void* stream : streams) {
    Ask(stream, [this, meeting, aborted, work] {
      if (*aborted || meeting->done) return kSuccess;
      if (setting("hang") != 0) return kNotReady;
      std::vector<std::unique_ptr<Open>> open;
      for (const auto& [other, asked] : meeting->all) {
        if (const int code = RunUntil(*other, asked); code != kSuccess) return static_cast<Code>(code);
      }
      for (const auto& [other, asked] : meeting->all) open.push_back(std::make_unique<Open>(*this, other->device));
      meeting->done = true;
      return static_cast<Code>(work());
    });
  }
}

int World::EnablePeer(int device, int peer) {
  if (!Connects(device, peer)) return kInvalidDevice;
  return enabled_peers_.insert({device, peer}).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

void World::Release(int device) {
  if (--contexts_[device] != 0) return;
  for (auto it = enabled_peers_.begin(); it != enabled_peers_.end();) {
    it = it->first == device || it->second == device ? enabled_peers_.erase(it) : std::next(it);
  }
}

int World::Fill(void* stream, uint64_t to, uint32_t value, uint32_t value_bytes, uint64_t count) {
  const auto of = StreamAt(stream);
  if (of == nullptr) return kInvalidHandle;
  if (to % value_bytes != 0 || !Owns(of->device, to, value_bytes * count)) return kInvalidValue;
  return Ask(stream, [this, device = of->device, to, value, value_bytes, count] {
    const Open open(*this, device);
    for (uint64_t i = 0; i < count; ++i) std::memcpy(At(to) + i * value_bytes, &value, value_bytes);
    return kSuccess;
  });
}

int World::Load(int device, std::unique_ptr<Program> program, void** module) {
  auto made = std::make_unique<Module>();
  made->device = device;
  made->program = std::move(program);
  *module = made.get();
  modules_[made.get()] = std::move(made);
  return kSuccess;
}

int World::Unload(void* module) {
  if (modules_.count(module) == 0) return kInvalidHandle;
  for (auto it = functions_.begin(); it != functions_.end();) {
    it = it->second->module == module ? functions_.erase(it) : std::next(it);
  }
  modules_.erase(module);
  return kSuccess;
}

int World::Find(void* module, const std::string& name, void** function) {
  const auto found = modules_.find(module);
  if (found == modules_.end()) return kInvalidHandle;
  const Program::Kernel* kernel = found->second->program->Find(name);
  if (kernel == nullptr) return kNotFound;
  auto made = std::make_unique<Function>();
  made->module = found->second.get();
  made->name = name;
  made->kernel = kernel;
  *function = made.get();
  functions_[made.get()] = std::move(made);
  return kSuccess;
}

const Function* World::FunctionAt(void* function) const {
  const auto found = functions_.find(function);
  return found == functions_.end() ? nullptr : found->second.get();
}

int World::Start(void* stream, void* function, const Launch& launch, void** parameters) {
  const Function* found = FunctionAt(function);
  const auto of = StreamAt(stream);
  if (found == nullptr || of == nullptr) return kInvalidHandle;
  uint64_t items = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (launch.groups[axis] == 0 || launch.items[axis] == 0) return kInvalidValue;
    items *= launch.items[axis];
  }
  if (items > found->kernel->max_items) return kInvalidValue;
  // Parameters are read during the call.
  std::vector<std::vector<char>> values;
  for (size_t i = 0; i < found->kernel->parameter_bytes.size(); ++i) {
    const char* value = static_cast<const char*>(parameters[i]);
    values.emplace_back(value, value + found->kernel->parameter_bytes[i]);
  }
  const Program* program = found->module->program.get();
  return Ask(stream, [this, device = of->device, program, name = found->name, launch, values = std::move(values)] {
    // Its own memory, and that of devices it was let at.
    std::map<int, Open> open;
    std::vector<Range> memory;
    for (const auto& [begin, block] : blocks_) {
      if (block.device != device && enabled_peers_.count({device, block.device}) == 0) continue;
      open.try_emplace(block.device, *this, block.device);
      memory.push_back({begin, block.bytes});
    }
    return program->Run(name, launch, values, memory);
  });
}

}  // namespace kiln::testing::fake_gpu
