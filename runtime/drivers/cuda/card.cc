#include "runtime/drivers/cuda/card.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/cuda/architectures.h"
#include "runtime/drivers/gpu/library_card.h"

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
constexpr int kFunctionMaxDynamicShared = 8;
enum TensorMapType : int { kUint8 = 0, kUint16 = 1, kUint32 = 2, kUint64 = 4 };
constexpr int kNoInterleave = 0;
constexpr int kPromoteTo128 = 2;  // bytes that L2 fetches at once
constexpr int kZerosOutside = 0;
enum JitOption : int { kErrorLog = 5, kErrorLogBytes = 6 };

class CudaCard final : public gpu::LibraryCard {
 public:
  CudaCard(std::shared_ptr<const Library> library, int index)
      : LibraryCard(library.get(), "CUDA", index), library_(std::move(library)) {}
  ~CudaCard() override {
    if (context_ != nullptr) library_->DevicePrimaryCtxRelease.function()(device_);
  }

  absl::Status Open() {
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGet, &device_, facts_.number));
    KILN_RETURN_IF_ERROR(Describe(device_));
    KILN_RETURN_IF_ERROR(ChooseTarget());
    KILN_RETURN_IF_ERROR(FindLimits());
    return Ask(library_->DevicePrimaryCtxRetain, &context_, device_);
  }

  absl::StatusOr<bool> ReachPeer(const gpu::Card& peer) override {
    const auto& other = static_cast<const CudaCard&>(peer);
    int can = 0;
    KILN_RETURN_IF_ERROR(Call(library_->DeviceCanAccessPeer, &can, device_, other.device_));
    if (can == 0) return false;
    return Reached(library_->CtxEnablePeerAccess.name(), library_->CtxEnablePeerAccess.function()(other.context_, 0u));
  }

  absl::Status CopyFromPeer(gpu::Stream stream, const gpu::Card& peer, Address from, Address to,
                            uint64_t bytes) override {
    const auto& other = static_cast<const CudaCard&>(peer);
    return Call(library_->MemcpyPeerAsync, to, context_, from, other.context_, bytes, Raw(stream));
  }
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
  absl::Status AllowShared(gpu::Function function, uint64_t dynamic_bytes) override {
    return Call(library_->FuncSetAttribute, Raw(function), kFunctionMaxDynamicShared, static_cast<int>(dynamic_bytes));
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
  absl::Status MakeCurrent() override { return Ask(library_->CtxSetCurrent, context_); }
  absl::StatusOr<void*> Instantiate(void* graph) override {
    void* made = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->GraphInstantiate, &made, graph, 0ull));
    return made;
  }

  absl::StatusOr<int> Attribute(int attribute) {
    int value = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGetAttribute, &value, attribute, device_));
    return value;
  }

  absl::Status ChooseTarget() {
    int driver = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->GetVersion, &driver));
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
  auto card = std::make_unique<CudaCard>(std::move(library), index);
  KILN_RETURN_IF_ERROR(card->Open());
  return card;
}

std::string VersionText(int version) { return absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10); }

}  // namespace kiln::runtime::cuda
