#include "server/compile_worker/worker_memory.h"

#include "absl/container/flat_hash_map.h"

namespace kiln::server {

void WorkerMemory::Add(uint64_t number, const TrustDomain& domain) {
  absl::MutexLock lock(&mutex_);
  rows_[number] = Row{domain};
}

void WorkerMemory::Remove(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  rows_.erase(number);
}

WorkerMemory::Verdict WorkerMemory::Works(uint64_t number, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  Row& mine = rows_[number];
  mine.bytes = bytes;
  if (mine.ending) return Verdict::kEnd;
  if (most_ == 0) return Verdict::kGoOn;
  uint64_t all = 0;
  bool idle = false;
  for (const auto& [other, row] : rows_) {
    if (row.ending) continue;  // it gives back what it has
    all += row.bytes;
    idle = idle || !row.works;
  }
  if (all <= most_) return Verdict::kGoOn;
  if (idle) return Verdict::kEndIdle;
  absl::flat_hash_map<TrustDomain, uint64_t> of_domain;
  for (const auto& [other, row] : rows_) {
    if (!row.ending) of_domain[row.domain] += row.bytes;
  }
  uint64_t most = 0, largest = 0;
  Row* victim = nullptr;
  for (auto& [other, row] : rows_) {
    if (row.ending) continue;
    const uint64_t together = of_domain[row.domain];
    if (together < most || (together == most && row.bytes <= largest)) continue;
    most = together;
    largest = row.bytes;
    victim = &row;
  }
  victim->ending = true;  // there is one: what is too much is somebody's
  return victim == &mine ? Verdict::kEnd : Verdict::kGoOn;
}

void WorkerMemory::Waits(uint64_t number, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  Row& mine = rows_[number];
  mine.bytes = bytes;
  mine.works = mine.ending = false;
}

void WorkerMemory::Begins(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  rows_[number].works = true;
}

uint64_t WorkerMemory::used() const {
  absl::MutexLock lock(&mutex_);
  uint64_t all = 0;
  for (const auto& [number, row] : rows_) all += row.bytes;
  return all;
}

}  // namespace kiln::server
