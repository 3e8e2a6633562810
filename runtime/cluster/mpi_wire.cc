#include "runtime/cluster/mpi_wire.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/cluster/mpi_table.h"
#include "runtime/cluster/transport.h"

namespace kiln::runtime::cluster {
namespace {

// The first of these variables that has a number; `otherwise` if none has.
uint32_t FromEnvironment(std::initializer_list<const char*> names, uint32_t otherwise) {
  for (const char* name : names) {
    const char* const text = std::getenv(name);
    uint32_t value = 0;
    if (text != nullptr && absl::SimpleAtoi(text, &value)) return value;
  }
  return otherwise;
}

class MpiWire final : public Wire {
 public:
  MpiWire(const KilnMpiTable& table, uint32_t rank, uint32_t size) : table_(table), rank_(rank), size_(size) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }

  absl::StatusOr<Request> SendMessage(uint32_t to, absl::string_view bytes) override {
    KilnMpiRequest* request = nullptr;
    const int code = table_.send_message(to, bytes.data(), bytes.size(), &request);
    return Begun(code, request);
  }
  absl::StatusOr<Request> Send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) override {
    KilnMpiRequest* request = nullptr;
    const int code = table_.send(to, tag, from, bytes, &request);
    return Begun(code, request);
  }
  absl::StatusOr<Request> Receive(uint32_t from, uint32_t tag, void* to, uint64_t bytes) override {
    KilnMpiRequest* request = nullptr;
    const int code = table_.receive(from, tag, to, bytes, &request);
    return Begun(code, request);
  }
  absl::StatusOr<bool> Test(Request request) override {
    int ended = 0;
    if (const int code = table_.test(FromNumber(request), &ended)) return Error(code);
    return ended != 0;
  }
  void Cancel(Request request) override { table_.cancel(FromNumber(request)); }
  void Abandon(Request request) override { table_.abandon(FromNumber(request)); }

  absl::StatusOr<bool> TakeMessage(Message& message) override {
    int found = 0;
    uint32_t from = 0;
    uint64_t bytes = 0;
    if (const int code = table_.find_message(&found, &from, &bytes)) return Error(code);
    if (found != 0) {
      coming_.push_back(std::make_unique<Coming>());
      Coming& coming = *coming_.back();
      coming.message.from = from;
      coming.message.bytes.resize(bytes);
      if (const int code = table_.take_message(coming.message.bytes.data(), &coming.request)) {
        coming_.pop_back();
        return Error(code);
      }
    }
    return NextThatIsHere(message);
  }

  void Close(bool together) override { table_.close(together ? 1 : 0); }

 private:
  // A message under way.
  struct Coming {
    Message message;
    KilnMpiRequest* request = nullptr;
    bool here = false;
  };

  // The first that has come, but for those of a rank whose earlier ones have not.
  absl::StatusOr<bool> NextThatIsHere(Message& message) {
    uint64_t behind = 0;  // a bit for each rank; there are at most 64
    for (size_t i = 0; i < coming_.size(); ++i) {
      Coming& coming = *coming_[i];
      const uint64_t bit = uint64_t{1} << (coming.message.from % 64);
      if (!coming.here) {
        int ended = 0;
        if (const int code = table_.test(coming.request, &ended)) {
          // What it wrote to is kept: nobody knows when that ends.
          static_cast<void>(coming_[i].release());
          coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(i));
          return Error(code);
        }
        coming.here = ended != 0;
      }
      if (coming.here && (behind & bit) == 0) {
        message = std::move(coming.message);
        coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      }
      behind |= bit;
    }
    return false;
  }

  static KilnMpiRequest* FromNumber(Request request) { return reinterpret_cast<KilnMpiRequest*>(request); }
  absl::StatusOr<Request> Begun(int code, KilnMpiRequest* request) const {
    if (code != 0) return Error(code);
    return reinterpret_cast<Request>(request);
  }
  absl::Status Error(int code) const {
    char text[256];
    table_.explain(code, text, sizeof(text));
    return absl::UnavailableError(absl::StrCat("MPI says: ", text));
  }

  const KilnMpiTable& table_;
  const uint32_t rank_;
  const uint32_t size_;
  std::vector<std::unique_ptr<Coming>> coming_;  // oldest first
};

}  // namespace

uint32_t LaunchedRanks() {
  if (const uint32_t ranks = FromEnvironment({"OMPI_COMM_WORLD_SIZE"}, 0)) return ranks;
  // Without PMIx, what srun starts are processes that know nothing of each other.
  return std::getenv("PMIX_RANK") == nullptr ? 0 : FromEnvironment({"SLURM_STEP_NUM_TASKS"}, 0);
}

uint32_t LaunchedRank() { return FromEnvironment({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}, 0); }

uint32_t RanksOnThisHost() {
  if (const uint32_t local = FromEnvironment({"OMPI_COMM_WORLD_LOCAL_SIZE"}, 0)) return local;
  // Slurm's is a list by node, "4(x2),3"; the first will do, since the largest come first.
  const char* const nodes = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  if (nodes == nullptr) return 1;
  return std::max(1u, static_cast<uint32_t>(std::strtoul(nodes, nullptr, 10)));
}

uint32_t NumberOnThisHost() { return FromEnvironment({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, 0); }

absl::StatusOr<std::unique_ptr<Wire>> JoinMpi(const std::string& library) {
  // For ever: MPI cannot be left and joined again. Its own plugins look for its symbols
  // among everyone's.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return absl::UnavailableError(absl::StrCat("no MPI: ", dlerror()));
  const auto* const table = static_cast<const KilnMpiTable*>(dlsym(handle, "kiln_mpi_table"));
  if (table == nullptr || table->version != kKilnMpiVersion) {
    return absl::UnavailableError(absl::StrCat(library, " is of another build"));
  }
  uint32_t rank = 0, size = 0, max_tag = 0;
  if (const int code = table->open(&rank, &size, &max_tag)) {
    char text[256];
    table->explain(code, text, sizeof(text));
    return absl::UnavailableError(absl::StrCat("MPI says: ", text));
  }
  if (max_tag < kTagEnd) {
    return absl::UnavailableError(absl::StrCat(table->library(), " has tags up to ", max_tag, " here, and Kiln wants ",
                                               kTagEnd, "; Open MPI has them with --mca pml ob1"));
  }
  return std::make_unique<MpiWire>(*table, rank, size);
}

}  // namespace kiln::runtime::cluster
