#include "tests/support/amd/group.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::testing::amd {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStack = size_t{1} << 20;  // of one fibre, with a page below that nobody may touch

thread_local Group* running = nullptr;
struct sigaction before[NSIG];

}  // namespace

extern "C" {

uint32_t kiln_amd_coordinate(uint32_t which) {
  const Group& group = *running;
  if (which >= 3) return group.at_[which - 3];
  size_t number = group.current_;
  for (size_t axis = 0; axis < which; ++axis) number /= group.shape_[axis];
  return static_cast<uint32_t>(number % group.shape_[which]);
}

void kiln_amd_barrier(uint32_t site) { running->WaitAs(Group::State::kAtBarrier, site); }

void kiln_amd_wave(uint32_t site, uint32_t op, void* result, void* const* operands) {
  Group::Item& item = running->items_[running->current_];
  item.op = op;
  item.lane = {result, operands};
  running->WaitAs(Group::State::kInWave, site);
}

}  // extern "C"

Group::Group(std::array<uint32_t, 3> items, uint32_t lanes, bool meets, std::function<void()> body)
    : shape_(items),
      count_(size_t{items[0]} * items[1] * items[2]),
      lanes_(lanes),
      meets_(meets),
      body_(std::move(body)),
      items_(meets ? count_ : 1) {
  void* all =
      mmap(nullptr, items_.size() * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KILN_CHECK(all != MAP_FAILED);
  stacks_ = static_cast<char*>(all);
  for (size_t i = 0; i < items_.size(); ++i) KILN_CHECK(mprotect(stacks_ + i * kStack, kPage, PROT_NONE) == 0);
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &action, &before[signal]);
  });
}

Group::~Group() { munmap(stacks_, items_.size() * kStack); }

// Back to who resumed the item, which is never resumed again.
void Group::OnFault(int signal, siginfo_t* info, void*) {
  if (running == nullptr) {  // not of a kernel's making
    sigaction(signal, &before[signal], nullptr);
    return;
  }
  running->faulted_ = true;
  running->fault_ = reinterpret_cast<uint64_t>(info->si_addr);
  setcontext(&running->home_);
}

void Group::Main() {
  running->RunAll();
  Group& group = *running;
  group.items_[group.meets_ ? group.current_ : 0].state = State::kDone;
  setcontext(&group.home_);
}

void Group::RunAll() {
  if (meets_) return body_();
  for (size_t i = 0; i < count_; ++i) {
    current_ = i;
    body_();
  }
}

void Group::WaitAs(State state, uint32_t site) {
  Item& item = items_[current_];
  item.state = state;
  item.site = site;
  KILN_CHECK(swapcontext(&item.context, &home_) == 0);
}

absl::Status Group::Resume(size_t i) {
  current_ = i;
  running = this;
  KILN_CHECK(swapcontext(&home_, &items_[i].context) == 0);
  running = nullptr;
  if (!faulted_) return absl::OkStatus();
  return Failure(current_, absl::StrFormat("an access at %#x, where no memory of its is", fault_));
}

void Group::Begin(Item& item, char* stack) {
  item.state = State::kReady;
  KILN_CHECK(getcontext(&item.context) == 0);
  item.context.uc_stack = {stack + kPage, 0, kStack - kPage};
  item.context.uc_link = nullptr;
  makecontext(&item.context, Main, 0);
}

absl::Status Group::Run(std::array<uint32_t, 3> at) {
  at_ = at;
  for (size_t i = 0; i < items_.size(); ++i) Begin(items_[i], stacks_ + i * kStack);
  while (true) {
    for (size_t iteration = 0; iteration < items_.size(); ++iteration) {
      const size_t i = backwards_ ? items_.size() - 1 - iteration : iteration;
      if (items_[i].state == State::kReady) KILN_RETURN_IF_ERROR(Resume(i));
    }
    backwards_ = !backwards_;
    if (std::all_of(items_.begin(), items_.end(), [](const Item& item) { return item.state == State::kDone; }))
      return absl::OkStatus();
    bool went_on = false;
    for (size_t first = 0; first < count_; first += lanes_) KILN_RETURN_IF_ERROR(Exchange(first, went_on));
    if (!went_on) KILN_RETURN_IF_ERROR(PassBarrier());
  }
}

absl::Status Group::Exchange(size_t first, bool& went_on) {
  const size_t end = std::min(first + lanes_, count_);
  const auto in_wave = [](const Item& item) { return item.state == State::kInWave; };
  const auto begin = items_.begin() + static_cast<ptrdiff_t>(first),
             last = items_.begin() + static_cast<ptrdiff_t>(end);
  const auto waits = std::find_if(begin, last, in_wave);
  if (waits == last) return absl::OkStatus();
  const WaveOp& op = WaveOps()[waits->op];
  std::vector<WaveLane> lanes(lanes_);
  for (size_t i = first; i < end; ++i) {
    if (!in_wave(items_[i]) || items_[i].site != waits->site)
      return Failure(i, absl::StrCat("does not come to the ", op.name, " where ",
                                     NameOf(static_cast<size_t>(waits - items_.begin())), " is"));
    lanes[i - first] = items_[i].lane;
  }
  op.run(lanes);
  for (size_t i = first; i < end; ++i) items_[i].state = State::kReady;
  went_on = true;
  return absl::OkStatus();
}

absl::Status Group::PassBarrier() {
  const auto waits =
      std::find_if(items_.begin(), items_.end(), [](const Item& item) { return item.state == State::kAtBarrier; });
  KILN_CHECK(waits != items_.end());
  for (size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].state != State::kAtBarrier || items_[i].site != waits->site)
      return Failure(i, absl::StrCat("does not come to the barrier where ",
                                     NameOf(static_cast<size_t>(waits - items_.begin())), " is"));
  }
  for (Item& item : items_) item.state = State::kReady;
  return absl::OkStatus();
}

std::string Group::NameOf(size_t item) const {
  const size_t x = item % shape_[0], y = item / shape_[0] % shape_[1], z = item / shape_[0] / shape_[1];
  return absl::StrCat("item (", x, ", ", y, ", ", z, ")");
}

absl::Status Group::Failure(size_t item, const std::string& what) const {
  return absl::OutOfRangeError(
      absl::StrCat("group (", at_[0], ", ", at_[1], ", ", at_[2], "), ", NameOf(item), ": ", what));
}

}  // namespace kiln::testing::amd
