#include "runtime/drivers/hip/card.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "runtime/drivers/gpu/library_card.h"
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

class HipCard final : public gpu::LibraryCard {
 public:
  HipCard(std::shared_ptr<const Library> library, int index)
      : LibraryCard(library.get(), "HIP", index), library_(std::move(library)), index_(index) {}

  absl::Status Open(const std::string& nodes) {
    KILN_RETURN_IF_ERROR(Describe(index_));
    int version = 0;
    KILN_RETURN_IF_ERROR(Ask(library_->GetVersion, &version));
    facts_.driver = absl::StrCat("HIP ", version / 10'000'000, ".", version / 100'000 % 100);
    char place[64] = "";
    KILN_RETURN_IF_ERROR(Ask(library_->DeviceGetPCIBusId, place, static_cast<int>(sizeof(place) - 1), index_));
    const std::optional<Node> node = FindNode(nodes, place);
    if (!node.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(facts_.name, ", ", facts_.product, ", at ", place,
                                                        ": the kernel lists no GPU there in ", nodes));
    }
    return ChooseTarget(*node);
  }

  absl::StatusOr<bool> ReachPeer(const gpu::Card& peer) override {
    const auto& other = static_cast<const HipCard&>(peer);
    int can = 0;
    KILN_RETURN_IF_ERROR(Call(library_->DeviceCanAccessPeer, &can, index_, other.index_));
    if (can == 0) return false;
    return Reached(library_->DeviceEnablePeerAccess.name(),
                   library_->DeviceEnablePeerAccess.function()(other.index_, 0u));
  }

  absl::Status CopyFromPeer(gpu::Stream stream, const gpu::Card& peer, Address from, Address to,
                            uint64_t bytes) override {
    const auto& other = static_cast<const HipCard&>(peer);
    return Call(library_->MemcpyPeerAsync, to, index_, from, other.index_, bytes, Raw(stream));
  }
  absl::StatusOr<gpu::Image> Load(const std::string& code) override {
    void* module = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->ModuleLoadData, &module, code.data()));
    return static_cast<gpu::Image>(module);
  }
  // All there is may be asked for at once.
  absl::Status AllowShared(gpu::Function function, uint64_t dynamic_bytes) override { return absl::OkStatus(); }

 private:
  absl::Status MakeCurrent() override { return Ask(library_->SetDevice, index_); }
  absl::StatusOr<void*> Instantiate(void* graph) override {
    void* made = nullptr;
    KILN_RETURN_IF_ERROR(Call(library_->GraphInstantiate, &made, graph, nullptr, nullptr, size_t{0}));
    return made;
  }

  absl::Status ChooseTarget(const Node& node) {
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

}  // namespace kiln::runtime::hip
