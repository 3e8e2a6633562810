#include "runtime/drivers/hip/card.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "runtime/drivers/hip/topology.h"

namespace kiln::runtime::hip {
namespace {

using gpu::Address;

// The compiler's table (compiler/target/gpu/architectures.cc); a test compares them.
constexpr const char* kArchitectures[] = {"gfx90a", "gfx942", "gfx1100", "gfx1200"};

// Of all that there is code for.
constexpr uint64_t kMaxItems = 1024;
constexpr std::array<uint64_t, 3> kMaxGroups = {0x7fffffff, 65535, 65535};
constexpr uint64_t kMaxItemsAlong = 0xffffffff;  // a dispatch counts them in 32 bits

// Of the library's enumerations.
enum FunctionAttribute : int { kFunctionMaxThreads = 0, kFunctionSharedBytes = 1, kFunctionRegisters = 4 };
constexpr unsigned kNonBlocking = 1;    // of streams: not in the order of the default stream
constexpr unsigned kDisableTiming = 2;  // of events
constexpr int kNotReady = 600;
constexpr int kPeerAccessAlreadyEnabled = 704;
constexpr int kRelaxedCapture = 2;  // what other threads ask for meanwhile is their affair

template <typename Handle>
void* Raw(Handle handle) {
  return handle;
}
void* Raw(Address address) { return reinterpret_cast<void*>(address); }

class HipCard final : public gpu::Card {
 public:
  HipCard(std::shared_ptr<const Library> library, int index) : library_(std::move(library)), index_(index) {}

  absl::Status Open(const std::string& nodes) {
    facts_.number = index_;
    facts_.name = absl::StrCat("HIP:", index_);
    char text[256] = "";
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGetName, text, static_cast<int>(sizeof(text) - 1), index_));
    facts_.product = text;
    size_t bytes = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceTotalMem, &bytes, index_));
    facts_.memory_bytes = bytes;
    int version = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->RuntimeGetVersion, &version));
    facts_.driver = absl::StrCat("HIP ", version / 10'000'000, ".", version / 100'000 % 100);
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGetPCIBusId, text, static_cast<int>(sizeof(text) - 1), index_));
    const std::optional<Node> node = FindNode(nodes, text);
    if (!node.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(facts_.name, ", ", facts_.product, ", at ", text, ": the kernel lists no GPU there in ", nodes));
    }
    return Describe(*node);
  }

  absl::StatusOr<bool> ReachPeer(const gpu::Card& peer) override {
    const auto& other = static_cast<const HipCard&>(peer);
    int can = 0;
    KILN_RETURN_IF_ERROR(Call(library_->DeviceCanAccessPeer, &can, index_, other.index_));
    if (can == 0) return false;
    const int code = library_->DeviceEnablePeerAccess.function()(other.index_, 0u);
    if (code == 0 || code == kPeerAccessAlreadyEnabled) return true;
    return Failed(library_->DeviceEnablePeerAccess, code);
  }

  absl::StatusOr<Address> Allocate(uint64_t bytes) override {
    void* memory = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->Malloc, &memory, bytes));
    return reinterpret_cast<Address>(memory);
  }
  absl::Status Free(Address address) override { return GiveBack(library_->Free, Raw(address)); }
  absl::StatusOr<void*> AllocatePinned(uint64_t bytes) override {
    void* memory = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->HostMalloc, &memory, bytes, 0u));
    return memory;
  }
  absl::Status FreePinned(void* memory) override { return GiveBack(library_->HostFree, memory); }

  absl::StatusOr<gpu::Stream> MakeStream() override {
    void* stream = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->StreamCreateWithFlags, &stream, kNonBlocking));
    return static_cast<gpu::Stream>(stream);
  }
  absl::Status DestroyStream(gpu::Stream stream) override { return GiveBack(library_->StreamDestroy, Raw(stream)); }
  absl::Status Finish(gpu::Stream stream) override { return Waited(Call(library_->StreamSynchronize, Raw(stream))); }

  absl::StatusOr<gpu::Event> MakeEvent() override { return MakeEvent(kDisableTiming); }
  absl::StatusOr<gpu::Event> MakeTimedEvent() override { return MakeEvent(0u); }
  absl::Status DestroyEvent(gpu::Event event) override { return GiveBack(library_->EventDestroy, Raw(event)); }
  absl::Status Record(gpu::Event event, gpu::Stream stream) override {
    return Call(library_->EventRecord, Raw(event), Raw(stream));
  }
  absl::Status Wait(gpu::Event event) override { return Waited(Call(library_->EventSynchronize, Raw(event))); }
  absl::StatusOr<bool> Happened(gpu::Event event) override {
    KILN_RETURN_IF_ERROR(health());
    const int code = library_->EventQuery.function()(Raw(event));
    if (code == 0) return true;
    if (code == kNotReady) return false;
    return Waited(Failed(library_->EventQuery, code));
  }
  absl::StatusOr<double> SecondsBetween(gpu::Event from, gpu::Event to) override {
    float milliseconds = 0;
    KILN_RETURN_IF_ERROR(Call(library_->EventElapsedTime, &milliseconds, Raw(from), Raw(to)));
    return milliseconds * 1e-3;
  }
  absl::Status Follow(gpu::Stream stream, gpu::Event event) override {
    return Call(library_->StreamWaitEvent, Raw(stream), Raw(event), 0u);
  }

  absl::Status CopyIn(gpu::Stream stream, const void* from, Address to, uint64_t bytes) override {
    return Call(library_->MemcpyHtoDAsync, Raw(to), from, bytes, Raw(stream));
  }
  absl::Status CopyOut(gpu::Stream stream, Address from, void* to, uint64_t bytes) override {
    return Call(library_->MemcpyDtoHAsync, to, Raw(from), bytes, Raw(stream));
  }
  absl::Status CopyInside(gpu::Stream stream, Address from, Address to, uint64_t bytes) override {
    return Call(library_->MemcpyDtoDAsync, Raw(to), Raw(from), bytes, Raw(stream));
  }
  absl::Status CopyFromPeer(gpu::Stream stream, const gpu::Card& peer, Address from, Address to,
                            uint64_t bytes) override {
    const auto& other = static_cast<const HipCard&>(peer);
    return Call(library_->MemcpyPeerAsync, Raw(to), index_, Raw(from), other.index_, bytes, Raw(stream));
  }
  absl::Status Fill(gpu::Stream stream, Address to, uint32_t value, uint32_t value_bytes, uint64_t count) override {
    switch (value_bytes) {
      case 1: return Call(library_->MemsetD8Async, Raw(to), static_cast<unsigned char>(value), count, Raw(stream));
      case 2: return Call(library_->MemsetD16Async, Raw(to), static_cast<unsigned short>(value), count, Raw(stream));
      default: return Call(library_->MemsetD32Async, Raw(to), static_cast<int>(value), count, Raw(stream));
    }
  }
  absl::Status Launch(gpu::Stream stream, gpu::Function function, const gpu::LaunchShape& shape,
                      void** parameters) override {
    return Call(library_->ModuleLaunchKernel, Raw(function), shape.groups[0], shape.groups[1], shape.groups[2],
                shape.items[0], shape.items[1], shape.items[2], shape.dynamic_shared_bytes, Raw(stream), parameters,
                nullptr);
  }

  absl::StatusOr<gpu::Graph> Capture(gpu::Stream stream, absl::FunctionRef<absl::Status()> launches) override {
    KILN_RETURN_IF_ERROR(Call(library_->StreamBeginCapture, Raw(stream), kRelaxedCapture));
    absl::Status status = launches();
    void* graph = nullptr;
    status.Update(Call(library_->StreamEndCapture, Raw(stream), &graph));
    void* made = nullptr;
    if (status.ok()) status = Call(library_->GraphInstantiate, &made, graph, nullptr, nullptr, size_t{0});
    if (graph != nullptr) GiveBack(library_->GraphDestroy, graph).IgnoreError();
    if (!status.ok()) return status;
    return static_cast<gpu::Graph>(made);
  }
  absl::Status LaunchGraph(gpu::Stream stream, gpu::Graph graph) override {
    return Call(library_->GraphLaunch, Raw(graph), Raw(stream));
  }
  absl::Status DestroyGraph(gpu::Graph graph) override { return GiveBack(library_->GraphExecDestroy, Raw(graph)); }

  absl::StatusOr<gpu::Image> Load(const std::string& code) override {
    void* module = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->ModuleLoadData, &module, code.data()));
    return static_cast<gpu::Image>(module);
  }
  absl::Status Unload(gpu::Image image) override { return GiveBack(library_->ModuleUnload, Raw(image)); }
  absl::StatusOr<gpu::Function> Find(gpu::Image image, const std::string& symbol) override {
    void* function = nullptr;
    absl::Status status = Call(library_->ModuleGetFunction, &function, Raw(image), symbol.c_str());
    if (!status.ok()) return Annotate(status, absl::StrCat("kernel ", symbol));
    return static_cast<gpu::Function>(function);
  }
  absl::StatusOr<gpu::FunctionFacts> FactsOf(gpu::Function function) override {
    int items = 0, shared = 0, registers = 0;
    KILN_RETURN_IF_ERROR(Call(library_->FuncGetAttribute, &items, int{kFunctionMaxThreads}, Raw(function)));
    KILN_RETURN_IF_ERROR(Call(library_->FuncGetAttribute, &shared, int{kFunctionSharedBytes}, Raw(function)));
    KILN_RETURN_IF_ERROR(Call(library_->FuncGetAttribute, &registers, int{kFunctionRegisters}, Raw(function)));
    return gpu::FunctionFacts{static_cast<uint64_t>(items), static_cast<uint64_t>(shared),
                              static_cast<uint64_t>(registers)};
  }
  // All there is may be asked for at once.
  absl::Status AllowShared(gpu::Function function, uint64_t dynamic_bytes) override { return absl::OkStatus(); }

 private:
  absl::StatusOr<gpu::Event> MakeEvent(unsigned flags) {
    void* event = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->EventCreateWithFlags, &event, flags));
    return static_cast<gpu::Event>(event);
  }

  template <typename... Parameters, typename... Arguments>
  absl::Status Ask(const Library::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    const int code = entry.function()(arguments...);
    return code == 0 ? absl::OkStatus() : Failed(entry, code);
  }

  template <typename Entry>
  absl::Status Failed(const Entry& entry, int code) {
    return Failure(entry.name(), code, library_->GetErrorName.function()(code),
                   library_->GetErrorString.function()(code));
  }

  // A call for this card: the calling thread may have used another.
  template <typename... Parameters, typename... Arguments>
  absl::Status Call(const Library::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    KILN_RETURN_IF_ERROR(health());
    KILN_RETURN_IF_ERROR(Ask(library_->SetDevice, index_));
    return Ask(entry, arguments...);
  }

  // The same for what gives something back, as well as may be.
  template <typename... Parameters, typename... Arguments>
  absl::Status GiveBack(const Library::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    KILN_RETURN_IF_ERROR(health());
    Ask(library_->SetDevice, index_).IgnoreError();
    return Ask(entry, arguments...);
  }

  absl::Status Describe(const Node& node) {
    if (std::find(std::begin(kArchitectures), std::end(kArchitectures), node.arch) == std::end(kArchitectures)) {
      return absl::FailedPreconditionError(absl::StrCat(facts_.name, ", ", facts_.product, ", is ", node.arch,
                                                        ", for which Kiln makes no code: it does for ",
                                                        absl::StrJoin(kArchitectures, ", ")));
    }
    facts_.max_items = {kMaxItems, kMaxItems, kMaxItems};
    facts_.max_groups = kMaxGroups;
    facts_.max_items_along = kMaxItemsAlong;
    facts_.max_items_of_group = kMaxItems;
    facts_.max_shared_bytes = node.shared_bytes;
    facts_.target.set_kind(v1::Target::AMDGPU);
    facts_.target.set_triple("amdgcn-amd-amdhsa");
    facts_.target.set_arch(node.arch);
    v1::Target::Tuning& tuning = *facts_.target.mutable_tuning();
    tuning.set_vector_bytes(16);  // of one item's load
    tuning.set_cores(node.cores);
    tuning.set_lanes(node.lanes);
    tuning.set_shared_bytes(node.shared_bytes);
    tuning.set_l2_bytes(node.l2_bytes);
    return absl::OkStatus();
  }

  const std::shared_ptr<const Library> library_;
  const int index_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<gpu::Card>> OpenCard(std::shared_ptr<const Library> library, int index,
                                                    const std::string& nodes) {
  auto card = std::make_unique<HipCard>(std::move(library), index);
  KILN_RETURN_IF_ERROR(card->Open(nodes));
  return card;
}

std::string ErrorText(const Library& library, int code) {
  return absl::StrCat(library.GetErrorName.function()(code), " (", library.GetErrorString.function()(code), ")");
}

}  // namespace kiln::runtime::hip
