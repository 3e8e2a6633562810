#include "runtime/drivers/cuda/card.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/cuda/architectures.h"

namespace kiln::runtime::cuda {
namespace {

using gpu::Address;

// Of the library's enumerations.
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockDimX = 2,  // y and z are the next
  kMaxGridDimX = 5,
  kWarpSize = 10,
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kMaxSharedPerMultiprocessor = 81,
  kMaxSharedOptIn = 97,
};
enum FunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionSharedBytes = 1,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicShared = 8,
};
enum TensorMapType : int { kUint8 = 0, kUint16 = 1, kUint32 = 2, kUint64 = 4 };
constexpr int kNoInterleave = 0;
constexpr int kPromoteTo128 = 2;  // bytes that L2 fetches at once
constexpr int kZerosOutside = 0;
enum JitOption : int { kErrorLog = 5, kErrorLogBytes = 6 };
constexpr unsigned kNonBlocking = 1;    // of streams: not in the order of the default stream
constexpr unsigned kDisableTiming = 2;  // of events
constexpr int kNotReady = 600;
constexpr int kPeerAccessAlreadyEnabled = 704;
constexpr int kRelaxedCapture = 2;  // what other threads ask for meanwhile is their affair

template <typename Handle>
void* Raw(Handle handle) {
  return handle;
}

class CudaCard final : public gpu::Card {
 public:
  explicit CudaCard(std::shared_ptr<const Library> library) : library_(std::move(library)) {}
  ~CudaCard() override {
    if (context_ != nullptr) library_->DevicePrimaryCtxRelease.function()(device_);
  }

  absl::Status Open(int index) {
    facts_.number = index;
    facts_.name = absl::StrCat("CUDA:", index);
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGet, &device_, index));
    char product[256] = "";
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGetName, product, static_cast<int>(sizeof(product) - 1), device_));
    facts_.product = product;
    size_t bytes = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceTotalMem, &bytes, device_));
    facts_.memory_bytes = bytes;
    KILN_RETURN_IF_ERROR(ChooseTarget());
    KILN_RETURN_IF_ERROR(FindLimits());
    return Ask(library_->DevicePrimaryCtxRetain, &context_, device_);
  }

  absl::StatusOr<bool> ReachPeer(const gpu::Card& peer) override {
    const auto& other = static_cast<const CudaCard&>(peer);
    int can = 0;
    KILN_RETURN_IF_ERROR(Call(library_->DeviceCanAccessPeer, &can, device_, other.device_));
    if (can == 0) return false;
    const int code = library_->CtxEnablePeerAccess.function()(other.context_, 0u);
    if (code == 0 || code == kPeerAccessAlreadyEnabled) return true;
    return Failed(library_->CtxEnablePeerAccess, code);
  }

  absl::StatusOr<Address> Allocate(uint64_t bytes) override {
    Address address = 0;
    KILN_RETURN_IF_ERROR(Call(library_->MemAlloc, &address, bytes));
    return address;
  }
  absl::Status Free(Address address) override { return GiveBack(library_->MemFree, address); }
  absl::StatusOr<void*> AllocatePinned(uint64_t bytes) override {
    void* memory = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->MemHostAlloc, &memory, bytes, 0u));
    return memory;
  }
  absl::Status FreePinned(void* memory) override { return GiveBack(library_->MemFreeHost, memory); }

  absl::StatusOr<gpu::Stream> MakeStream() override {
    void* stream = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->StreamCreate, &stream, kNonBlocking));
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
    return Call(library_->MemcpyHtoDAsync, to, from, bytes, Raw(stream));
  }
  absl::Status CopyOut(gpu::Stream stream, Address from, void* to, uint64_t bytes) override {
    return Call(library_->MemcpyDtoHAsync, to, from, bytes, Raw(stream));
  }
  absl::Status CopyInside(gpu::Stream stream, Address from, Address to, uint64_t bytes) override {
    return Call(library_->MemcpyDtoDAsync, to, from, bytes, Raw(stream));
  }
  absl::Status CopyFromPeer(gpu::Stream stream, const gpu::Card& peer, Address from, Address to,
                            uint64_t bytes) override {
    const auto& other = static_cast<const CudaCard&>(peer);
    return Call(library_->MemcpyPeerAsync, to, context_, from, other.context_, bytes, Raw(stream));
  }
  absl::Status Fill(gpu::Stream stream, Address to, uint32_t value, uint32_t value_bytes, uint64_t count) override {
    switch (value_bytes) {
      case 1: return Call(library_->MemsetD8Async, to, static_cast<unsigned char>(value), count, Raw(stream));
      case 2: return Call(library_->MemsetD16Async, to, static_cast<unsigned short>(value), count, Raw(stream));
      default: return Call(library_->MemsetD32Async, to, value, count, Raw(stream));
    }
  }
  absl::Status Launch(gpu::Stream stream, gpu::Function function, const gpu::LaunchShape& shape,
                      void** parameters) override {
    return Call(library_->LaunchKernel, Raw(function), shape.groups[0], shape.groups[1], shape.groups[2],
                shape.items[0], shape.items[1], shape.items[2], shape.dynamic_shared_bytes, Raw(stream), parameters,
                nullptr);
  }

  absl::StatusOr<gpu::Graph> Capture(gpu::Stream stream, absl::FunctionRef<absl::Status()> launches) override {
    KILN_RETURN_IF_ERROR(Call(library_->StreamBeginCapture, Raw(stream), kRelaxedCapture));
    absl::Status status = launches();
    void* graph = nullptr;
    status.Update(Call(library_->StreamEndCapture, Raw(stream), &graph));
    void* made = nullptr;
    if (status.ok()) status = Call(library_->GraphInstantiate, &made, graph, 0ull);
    if (graph != nullptr) GiveBack(library_->GraphDestroy, graph).IgnoreError();
    if (!status.ok()) return status;
    return static_cast<gpu::Graph>(made);
  }
  absl::Status LaunchGraph(gpu::Stream stream, gpu::Graph graph) override {
    return Call(library_->GraphLaunch, Raw(graph), Raw(stream));
  }
  absl::Status DestroyGraph(gpu::Graph graph) override { return GiveBack(library_->GraphExecDestroy, Raw(graph)); }

  absl::StatusOr<gpu::Image> Load(const std::string& code) override {
    char log[4096] = "";
    int options[] = {kErrorLog, kErrorLogBytes};
    void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
    void* module = nullptr;
    // PTX ends with a zero byte, as the string does.
    absl::Status status = Call(library_->ModuleLoadDataEx, &module, code.c_str(), 2u, options, values);
    if (status.ok()) return static_cast<gpu::Image>(module);
    log[sizeof(log) - 1] = 0;
    const absl::string_view text = absl::StripAsciiWhitespace(log);
    return text.empty() ? status : Annotate(status, text);
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
  absl::Status AllowShared(gpu::Function function, uint64_t dynamic_bytes) override {
    return Call(library_->FuncSetAttribute, Raw(function), int{kFunctionMaxDynamicShared},
                static_cast<int>(dynamic_bytes));
  }

  std::string WhyNoTensorMaps() const override {
    if (library_->TensorMapEncodeTiled.function() != nullptr) return "";
    return absl::StrCat("the driver has no ", library_->TensorMapEncodeTiled.name(), "; install a newer driver");
  }
  absl::Status Encode(const gpu::TensorMap& map, gpu::EncodedTensorMap& encoded) override {
    // Only how many bytes an element has matters to the engine, as long as zero is what is outside.
    const int type = map.element_bytes == 1   ? kUint8
                     : map.element_bytes == 2 ? kUint16
                     : map.element_bytes == 4 ? kUint32
                                              : kUint64;
    const int swizzle = map.swizzle_bytes == 0 ? 0 : map.swizzle_bytes == 32 ? 1 : map.swizzle_bytes == 64 ? 2 : 3;
    const uint32_t element_strides[5] = {1, 1, 1, 1, 1};
    return Call(library_->TensorMapEncodeTiled, static_cast<void*>(encoded.bytes), type, map.axes,
                reinterpret_cast<void*>(map.address), map.sizes.data(), map.strides_bytes.data(), map.box.data(),
                &element_strides[0], kNoInterleave, swizzle, kPromoteTo128, kZerosOutside);
  }

 private:
  absl::StatusOr<gpu::Event> MakeEvent(unsigned flags) {
    void* event = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->EventCreate, &event, flags));
    return static_cast<gpu::Event>(event);
  }

  // A call for which no context is needed.
  template <typename... Parameters, typename... Arguments>
  absl::Status Ask(const Library::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    const int code = entry.function()(arguments...);
    return code == 0 ? absl::OkStatus() : Failed(entry, code);
  }

  template <typename Entry>
  absl::Status Failed(const Entry& entry, int code) {
    const char* name = nullptr;
    const char* text = nullptr;
    library_->GetErrorName.function()(code, &name);
    library_->GetErrorString.function()(code, &text);
    return Failure(entry.name(), code, name == nullptr ? absl::StrCat("error ", code) : name,
                   text == nullptr ? "no text" : text);
  }

  // A call in this card's context, which the calling thread may not have had.
  template <typename... Parameters, typename... Arguments>
  absl::Status Call(const Library::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    KILN_RETURN_IF_ERROR(health());
    KILN_RETURN_IF_ERROR(Ask(library_->CtxSetCurrent, context_));
    return Ask(entry, arguments...);
  }

  // The same for what gives something back, as well as may be.
  template <typename... Parameters, typename... Arguments>
  absl::Status GiveBack(const Library::Entry<int(Parameters...)>& entry, Arguments... arguments) {
    KILN_RETURN_IF_ERROR(health());
    Ask(library_->CtxSetCurrent, context_).IgnoreError();
    return Ask(entry, arguments...);
  }

  absl::StatusOr<int> Attribute(int attribute) {
    int value = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGetAttribute, &value, attribute, device_));
    return value;
  }

  absl::Status ChooseTarget() {
    int driver = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->DriverGetVersion, &driver));
    facts_.driver = VersionText(driver);
    KILN_ASSIGN_OR_RETURN(const int major, Attribute(kComputeMajor));
    KILN_ASSIGN_OR_RETURN(const int minor, Attribute(kComputeMinor));
    const Architecture* architecture = ArchitectureFor(major, minor);
    if (architecture == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(facts_.name, ", ", facts_.product, ", has compute capability ",
                                                        major, ".", minor,
                                                        ", for which Kiln makes no code: it does from 8.0 (A100) on"));
    }
    if (driver < architecture->least_driver) {
      return absl::FailedPreconditionError(absl::StrCat(
          facts_.name, ", ", facts_.product, ": the driver knows ", facts_.driver, ", and code for ",
          architecture->name, " needs ", VersionText(architecture->least_driver), "; install a newer driver"));
    }
    facts_.target.set_kind(v1::Target::NVPTX);
    facts_.target.set_triple("nvptx64-nvidia-cuda");
    facts_.target.set_arch(architecture->name);
    return absl::OkStatus();
  }

  absl::Status FindLimits() {
    for (int axis = 0; axis < 3; ++axis) {
      KILN_ASSIGN_OR_RETURN(facts_.max_items[axis], Attribute(kMaxBlockDimX + axis));
      KILN_ASSIGN_OR_RETURN(facts_.max_groups[axis], Attribute(kMaxGridDimX + axis));
    }
    KILN_ASSIGN_OR_RETURN(facts_.max_items_of_group, Attribute(kMaxThreadsPerBlock));
    KILN_ASSIGN_OR_RETURN(facts_.max_shared_bytes, Attribute(kMaxSharedOptIn));
    KILN_ASSIGN_OR_RETURN(const int cores, Attribute(kMultiprocessors));
    KILN_ASSIGN_OR_RETURN(const int lanes, Attribute(kWarpSize));
    KILN_ASSIGN_OR_RETURN(const int l1_bytes, Attribute(kMaxSharedPerMultiprocessor));
    KILN_ASSIGN_OR_RETURN(const int l2_bytes, Attribute(kL2Bytes));
    v1::Target::Tuning& tuning = *facts_.target.mutable_tuning();
    tuning.set_vector_bytes(16);  // of one item's load
    tuning.set_cores(static_cast<uint32_t>(cores));
    tuning.set_lanes(static_cast<uint32_t>(lanes));
    tuning.set_shared_bytes(facts_.max_shared_bytes);
    tuning.set_l1_bytes(static_cast<uint64_t>(l1_bytes));
    tuning.set_l2_bytes(static_cast<uint64_t>(l2_bytes));
    return absl::OkStatus();
  }

  const std::shared_ptr<const Library> library_;
  int device_ = 0;
  void* context_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<gpu::Card>> OpenCard(std::shared_ptr<const Library> library, int index) {
  auto card = std::make_unique<CudaCard>(std::move(library));
  KILN_RETURN_IF_ERROR(card->Open(index));
  return card;
}

std::string VersionText(int version) { return absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10); }

std::string ErrorText(const Library& library, int code) {
  const char* name = nullptr;
  const char* text = nullptr;
  library.GetErrorName.function()(code, &name);
  library.GetErrorString.function()(code, &text);
  return absl::StrCat(name == nullptr ? absl::StrCat("error ", code) : name, " (", text == nullptr ? "no text" : text,
                      ")");
}

}  // namespace kiln::runtime::cuda
