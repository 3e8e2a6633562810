// NCCL, and RCCL, which has its interface: collectives among the cards of one vendor.
#ifndef KILN_RUNTIME_DRIVERS_GPU_NCCL_H_
#define KILN_RUNTIME_DRIVERS_GPU_NCCL_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/collective/vendor.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/gpu/entry_points.h"
#include "runtime/drivers/gpu/owned.h"

namespace kiln::runtime::gpu {

// The prototypes are our own, since the library's header wants the toolkit's.
struct NcclLibrary : EntryPoints {
  Entry<int(int*)> GetVersion{this, "ncclGetVersion"};
  Entry<const char*(int)> GetErrorString{this, "ncclGetErrorString"};
  Entry<const char*(void*)> GetLastError{this, "ncclGetLastError"};
  Entry<int(void**, int, const int*)> CommInitAll{this, "ncclCommInitAll"};
  Entry<int(void*)> CommDestroy{this, "ncclCommDestroy"};
  Entry<int(void*)> CommAbort{this, "ncclCommAbort"};
  Entry<int(void*, int*)> CommGetAsyncError{this, "ncclCommGetAsyncError"};
  Entry<int()> GroupStart{this, "ncclGroupStart"};
  Entry<int()> GroupEnd{this, "ncclGroupEnd"};
  Entry<int(const void*, void*, size_t, int, int, void*, void*)> AllReduce{this, "ncclAllReduce"};
  Entry<int(const void*, void*, size_t, int, int, void*, void*)> Broadcast{this, "ncclBroadcast"};
  Entry<int(const void*, void*, size_t, int, int, int, void*, void*)> Reduce{this, "ncclReduce"};
  Entry<int(const void*, size_t, int, int, void*, void*)> Send{this, "ncclSend"};
  Entry<int(void*, size_t, int, int, void*, void*)> Recv{this, "ncclRecv"};
};

class Nccl final : public collective::Vendor {
 public:
  // `name` is what replies call it, "nccl". The error says what is missing.
  static absl::StatusOr<std::shared_ptr<Nccl>> Open(const std::string& library, const char* name);
  ~Nccl() override;

  // "NCCL 2.28.9".
  const std::string& version() const { return version_; }

  // A device that it may be asked about, until Forget; it works on this stream.
  void Add(const hal::Device* device, Card* card, Stream stream);
  // Also gives back what it has made for it. Nothing may be under way there.
  void Forget(const hal::Device* device);

  const char* name() const override { return name_; }
  bool Does(collective::Kind kind, collective::ReduceOp op, v1::DType dtype, bool in_rank_order) const override;
  absl::Status Prepare(const std::vector<hal::Device*>& devices) override;
  absl::Status Run(const collective::VendorWork& work, absl::Duration timeout) override;

 private:
  using Devices = std::vector<const hal::Device*>;
  struct Member {
    Card* card = nullptr;
    Stream stream = nullptr;
    OwnedEvent done;
  };
  // What some devices have to work together; by rank.
  struct Team {
    Devices devices;
    std::vector<void*> communicators;
  };

  explicit Nccl(const char* name) : name_(name) {}

  absl::Status Ask(const collective::VendorWork& work, const Team& team, const std::vector<Member*>& members);
  absl::Status AskOne(const collective::VendorWork& work, uint32_t rank, void* communicator, Stream stream);
  absl::Status CopyOwn(const collective::VendorWork& work, const Member& root);
  // Until all are done.
  absl::Status Await(const collective::VendorWork& work, const Team& team, const std::vector<Member*>& members,
                     absl::Duration timeout);
  void Destroy(Team& team, bool abort);

  template <typename... Parameters, typename... Arguments>
  absl::Status Call(const EntryPoints::Entry<int(Parameters...)>& entry, void* communicator, Arguments... arguments);
  absl::Status Failed(const char* call, int code, void* communicator);

  const char* const name_;
  std::string version_;
  NcclLibrary library_;
  absl::Mutex mutex_;
  std::map<const hal::Device*, Member> members_ ABSL_GUARDED_BY(mutex_);
  // The one that was used last is first. One that is in use is not here.
  std::list<Team> teams_ ABSL_GUARDED_BY(mutex_);
  // Those the library could not make, which it is not asked for again.
  std::map<Devices, absl::Status> hopeless_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_NCCL_H_
