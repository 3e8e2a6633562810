// One launch's work groups, whose items are fibres.
#ifndef KILN_TESTS_SUPPORT_AMD_GROUP_H_
#define KILN_TESTS_SUPPORT_AMD_GROUP_H_

#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/amd/wave_ops.h"

namespace kiln::testing::amd {

// What code made by RetargetToHost calls, by these names. `site` numbers the places in a module.
extern "C" {
// 0 to 2: of the item in its group; 3 to 5: of the group.
uint32_t kiln_amd_coordinate(uint32_t which);
void kiln_amd_barrier(uint32_t site);
void kiln_amd_wave(uint32_t site, uint32_t op, void* result, void* const* operands);
}

class Group {
 public:
  // `body` is one item's work; where no item waits for another (`meets` is false) one fibre does all of them.
  Group(std::array<uint32_t, 3> items, uint32_t lanes, bool meets, std::function<void()> body);
  ~Group();

  // All items of group `at`. A failure says which of them, and why.
  absl::Status Run(std::array<uint32_t, 3> at);

 private:
  friend uint32_t kiln_amd_coordinate(uint32_t which);
  friend void kiln_amd_barrier(uint32_t site);
  friend void kiln_amd_wave(uint32_t site, uint32_t op, void* result, void* const* operands);

  enum class State { kReady, kAtBarrier, kInWave, kDone };
  struct Item {
    ucontext_t context;
    State state = State::kReady;
    uint32_t site = 0, op = 0;  // where it waits
    WaveLane lane;
  };

  static void Main();
  static void OnFault(int signal, siginfo_t* info, void* context);
  static void Begin(Item& item, char* stack);
  void RunAll();
  void WaitAs(State state, uint32_t site);
  absl::Status Resume(size_t i);
  // Of the wavefront that begins at item `first`: whether its items went on.
  absl::Status Exchange(size_t first, bool& went_on);
  absl::Status PassBarrier();
  std::string NameOf(size_t item) const;
  absl::Status Failure(size_t item, const std::string& what) const;

  const std::array<uint32_t, 3> shape_;
  const size_t count_, lanes_;
  const bool meets_;
  const std::function<void()> body_;
  std::array<uint32_t, 3> at_ = {0, 0, 0};
  std::vector<Item> items_;  // one, if they do not meet
  char* stacks_ = nullptr;
  ucontext_t home_;
  size_t current_ = 0;  // the item that runs
  bool backwards_ = false;
  bool faulted_ = false;
  uint64_t fault_ = 0;  // the address
};

}  // namespace kiln::testing::amd

#endif  // KILN_TESTS_SUPPORT_AMD_GROUP_H_
