// Turns at devices that have a queue and nothing else, and who is called.
#ifndef KILN_SERVER_FAIR_TURNS_FIXTURE_H_
#define KILN_SERVER_FAIR_TURNS_FIXTURE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "runtime/drivers/host/host_queue.h"
#include "server/fair/turns.h"

namespace kiln::server {

// A device that has a name and a queue, and is asked for nothing else.
class QueueOnly final : public runtime::hal::Device {
 public:
  explicit QueueOnly(int number) : name_(absl::StrCat("CPU:", number)) { target_.set_kind(v1::Target::CPU); }
  absl::string_view name() const override { return name_; }
  absl::string_view description() const override { return "a queue"; }
  const v1::Target& target() const override { return target_; }
  runtime::hal::Allocator& allocator() override {
    KILN_CHECK(false);
    return *static_cast<runtime::hal::Allocator*>(nullptr);
  }
  runtime::hal::Queue& queue() override { return queue_; }
  absl::StatusOr<void*> Scratch(uint64_t, const Account*, MemoryDomain) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<runtime::hal::Module>> LoadModule(const v1::Executable&) override {
    return absl::UnimplementedError("");
  }
  runtime::hal::DeviceStats stats() const override { return {}; }

 private:
  const std::string name_;
  v1::Target target_;
  runtime::host::HostQueue queue_{this, 10'000};
};

class TurnsTest : public testing::Test {
 protected:
  TurnsTest() {
    for (int i = 0; i < 2; ++i) devices_.push_back(std::make_unique<QueueOnly>(i));
    turns_ = std::make_unique<Turns>(Turns::Options{.cpu_budget_ns = 0, .most_waiting = 4}, devices_);
  }

  TurnRequest At(uint64_t flow, uint64_t estimate_ns = 1000, std::vector<int> devices = {0}) {
    TurnRequest request;
    request.control.flow = flow;
    for (const int device : devices) request.devices.push_back(devices_[device].get());
    request.estimate_ns = estimate_ns;
    return request;
  }

  // Notes who was called, and keeps its turn.
  TurnCallback Keep(const std::string& name) {
    return [this, name](absl::StatusOr<Turn> turn) {
      called_.push_back(turn.ok() ? name
                                  : absl::StrCat(name, " not: ", absl::StatusCodeToString(turn.status().code())));
      last_ = turn.status();
      if (turn.ok()) had_.emplace_back(name, *std::move(turn));
    };
  }
  // The oldest turn ends.
  void EndOne(uint64_t ns = 1000) {
    auto [name, turn] = std::move(had_.front());
    had_.pop_front();
    turn.End(ns);
  }

  using Names = std::vector<std::string>;
  std::vector<std::unique_ptr<runtime::hal::Device>> devices_;
  std::unique_ptr<Turns> turns_;
  Names called_;
  absl::Status last_;
  std::deque<std::pair<std::string, Turn>> had_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_TURNS_FIXTURE_H_
