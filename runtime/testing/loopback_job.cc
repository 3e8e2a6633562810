#include "runtime/testing/loopback_job.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/remote/device.h"

namespace kiln::runtime::testing {

LoopbackJob::LoopbackJob(uint32_t ranks, uint32_t devices_each, remote::TaskHandler handler, absl::Duration silence)
    : loopback_(ranks), ranks_(ranks) {
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    Rank& other = ranks_[rank];
    cpu::DeviceOptions options;
    options.threads = 1;
    options.memory_limit_bytes = kMemoryOfRank;
    other.worker = *remote::Worker::Make(*cpu::CreateDevices(devices_each, options), handler);
    cluster::TransportOptions transport;
    transport.silence = silence;
    transport.reader = [&other](cluster::Message message) { return other.Read(std::move(message)); };
    other.transport =
        *cluster::Transport::Open([this, rank] { return loopback_.MakeWire(rank); }, std::move(transport));
    other.worker->Begin(other.transport.get(), absl::StrCat("host", rank));
  }
  board_ = *remote::Switchboard::Open([this] { return loopback_.MakeWire(0); }, silence, nullptr);
  const auto hellos = *board_->Gather(absl::Seconds(60));
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    for (auto& device : remote::MakeDevices(board_, rank, hellos[rank], devices_each * rank)) {
      devices_.push_back(std::move(device));
    }
  }
}

LoopbackJob::~LoopbackJob() {
  devices_.clear();
  board_ = nullptr;
  for (Rank& rank : ranks_) {
    {
      absl::MutexLock lock(&rank.mutex);
      rank.ends = true;
    }
    rank.worker = nullptr;  // while it can still answer
    rank.transport = nullptr;
  }
}

absl::Status LoopbackJob::Rank::Read(cluster::Message message) {
  absl::MutexLock lock(&mutex);
  return ends ? absl::OkStatus() : worker->Read(std::move(message));
}

}  // namespace kiln::runtime::testing
