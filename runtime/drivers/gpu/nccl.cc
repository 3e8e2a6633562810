#include "runtime/drivers/gpu/nccl.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"

namespace kiln::runtime::gpu {
namespace {

using collective::Job;
using collective::Kind;
using collective::Part;
using collective::Place;
using collective::ReduceOp;
using collective::VendorWork;

// Communicators take memory of the cards; callers take turns with a few sets of devices at most.
constexpr size_t kMaxTeams = 8;
constexpr size_t kMaxHopeless = 64;

// What is sent at least, of a link that is slow: a collective may take so much longer than it
// would wait for a participant.
constexpr double kMinBytesPerSecond = 100e6;

// Of the library's enumerations.
constexpr int kNoType = -1, kBytes = 1;
int TypeOf(v1::DType dtype) {
  switch (dtype) {
    case v1::INT8: return 0;
    case v1::BOOL:  // 0 and 1
    case v1::UINT8: return 1;
    case v1::INT32: return 2;
    case v1::UINT32: return 3;
    case v1::INT64: return 4;
    case v1::UINT64: return 5;
    case v1::FLOAT16: return 6;
    case v1::FLOAT32: return 7;
    case v1::FLOAT64: return 8;
    case v1::BFLOAT16: return 9;
    default: return kNoType;
  }
}

bool IsFloat(v1::DType dtype) {
  return dtype == v1::FLOAT16 || dtype == v1::BFLOAT16 || dtype == v1::FLOAT32 || dtype == v1::FLOAT64;
}

int OpOf(v1::DType dtype, ReduceOp op) {
  constexpr int kSum = 0, kProd = 1, kMax = 2;
  if (op == ReduceOp::kProd) return kProd;
  // A sum of booleans is whether there is one.
  return op == ReduceOp::kMax || dtype == v1::BOOL ? kMax : kSum;
}

const void* At(const Place& place, uint64_t offset) { return place.data(offset); }

}  // namespace

absl::StatusOr<std::shared_ptr<Nccl>> Nccl::Open(const std::string& library, const char* name) {
  std::shared_ptr<Nccl> made(new Nccl(name));
  KILN_RETURN_IF_ERROR(made->library_.Bind({library}));
  int version = 0;
  KILN_RETURN_IF_ERROR(made->Call(made->library_.GetVersion, nullptr, &version));
  made->version_ =
      absl::StrCat(absl::AsciiStrToUpper(name), " ", version / 10'000, ".", version / 100 % 100, ".", version % 100);
  return made;
}

Nccl::~Nccl() {
  for (Team& team : teams_) Destroy(team, /*abort=*/false);
}

void Nccl::Add(const hal::Device* device, Card* card, Stream stream) {
  absl::MutexLock lock(&mutex_);
  members_[device] = Member{card, stream, {}};
}

void Nccl::Forget(const hal::Device* device) {
  absl::MutexLock lock(&mutex_);
  for (auto team = teams_.begin(); team != teams_.end();) {
    if (std::find(team->devices.begin(), team->devices.end(), device) == team->devices.end()) {
      ++team;
      continue;
    }
    const auto lost = [&](const hal::Device* of)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !members_[of].card->health().ok(); };
    Destroy(*team, std::any_of(team->devices.begin(), team->devices.end(), lost));
    team = teams_.erase(team);
  }
  members_.erase(device);
}

bool Nccl::Does(Kind kind, ReduceOp op, v1::DType dtype, bool in_rank_order) const {
  if (!collective::Reduces(kind)) return true;
  if (TypeOf(dtype) == kNoType) return false;
  if (!IsFloat(dtype)) return true;
  // Its maximum of a number and NaN is the number; and it adds up in an order of its own.
  return op != ReduceOp::kMax && !in_rank_order;
}

absl::Status Nccl::Prepare(const std::vector<hal::Device*>& devices) {
  const Devices wanted(devices.begin(), devices.end());
  std::vector<int> numbers;
  {
    absl::MutexLock lock(&mutex_);
    const auto known =
        std::find_if(teams_.begin(), teams_.end(), [&](const Team& team) { return team.devices == wanted; });
    if (known != teams_.end()) {
      teams_.splice(teams_.begin(), teams_, known);
      return absl::OkStatus();
    }
    if (const auto hopeless = hopeless_.find(wanted); hopeless != hopeless_.end()) return hopeless->second;
    for (const hal::Device* device : wanted) {
      Member& member = members_.at(device);
      KILN_RETURN_IF_ERROR(member.card->health());
      if (!member.done) {
        KILN_ASSIGN_OR_RETURN(const Event event, member.card->MakeEvent());
        member.done = OwnedEvent(member.card, event);
      }
      numbers.push_back(member.card->facts().number);
    }
  }
  Team team = {wanted, std::vector<void*>(wanted.size())};
  absl::Status status = Call(library_.CommInitAll, nullptr, team.communicators.data(), static_cast<int>(numbers.size()),
                             static_cast<const int*>(numbers.data()));
  absl::MutexLock lock(&mutex_);
  if (!status.ok()) {
    if (hopeless_.size() >= kMaxHopeless) hopeless_.clear();
    return hopeless_[wanted] = std::move(status);
  }
  teams_.push_front(std::move(team));
  while (teams_.size() > kMaxTeams) {
    Destroy(teams_.back(), /*abort=*/false);
    teams_.pop_back();
  }
  return absl::OkStatus();
}

absl::Status Nccl::Run(const VendorWork& work, absl::Duration timeout) {
  if (work.job.count == 0) return absl::OkStatus();
  const Devices wanted(work.devices.begin(), work.devices.end());
  std::vector<Member*> members;
  std::list<Team> mine;  // nobody else destroys it meanwhile
  {
    absl::MutexLock lock(&mutex_);
    const auto known =
        std::find_if(teams_.begin(), teams_.end(), [&](const Team& team) { return team.devices == wanted; });
    if (known == teams_.end()) return MakeError(v1::INTERNAL_FAULT, absl::StrCat(name_, ": devices are not prepared"));
    mine.splice(mine.begin(), teams_, known);
    for (const hal::Device* device : wanted) members.push_back(&members_.at(device));
  }
  const Team& team = mine.front();
  absl::Status status = Ask(work, team, members);
  for (const Member* member : members) {
    if (status.ok()) status = member->card->Record(member->done.get(), member->stream);
  }
  if (status.ok()) status = Await(work, team, members, timeout);
  if (status.ok()) {
    absl::MutexLock lock(&mutex_);
    teams_.splice(teams_.begin(), mine);
    return status;
  }
  // Some may wait for others for ever, and nobody can work with the communicators any more.
  Destroy(mine.front(), /*abort=*/true);
  for (const Member* member : members) member->card->Finish(member->stream).IgnoreError();
  for (const Member* member : members) {
    if (absl::Status health = member->card->health(); !health.ok()) return health;
  }
  return status;
}

absl::Status Nccl::Ask(const VendorWork& work, const Team& team, const std::vector<Member*>& members) {
  KILN_RETURN_IF_ERROR(CopyOwn(work, *members[work.job.root]));
  // One thread asks for all, so that no call waits for another's.
  KILN_RETURN_IF_ERROR(Call(library_.GroupStart, nullptr));
  absl::Status status;
  for (uint32_t rank = 0; rank < work.job.ranks && status.ok(); ++rank) {
    status = AskOne(work, rank, team.communicators[rank], members[rank]->stream);
  }
  status.Update(Call(library_.GroupEnd, team.communicators[0]));
  return status;
}

// The root's part of what it gathers or scatters does not travel.
absl::Status Nccl::CopyOwn(const VendorWork& work, const Member& root) {
  const Job& job = work.job;
  if (job.kind != Kind::kGather && job.kind != Kind::kScatter) return absl::OkStatus();
  const Part part = job.part(job.root);
  const bool gathers = job.kind == Kind::kGather;
  const uint64_t offset = part.begin * job.item_bytes, bytes = part.elements * job.item_bytes;
  const void* const from = At(work.inputs[job.root], gathers ? 0 : offset);
  const void* const to = At(work.outputs[job.root], gathers ? offset : 0);
  if (bytes == 0 || from == to) return absl::OkStatus();
  return root.card->CopyInside(root.stream, reinterpret_cast<Address>(from), reinterpret_cast<Address>(to), bytes);
}

absl::Status Nccl::AskOne(const VendorWork& work, uint32_t rank, void* communicator, Stream stream) {
  const Job& job = work.job;
  const uint64_t item = job.item_bytes;
  const int type = collective::Reduces(job.kind) ? TypeOf(work.dtype) : kBytes, op = OpOf(work.dtype, work.op);
  const int root = static_cast<int>(job.root);
  void* const on = stream;
  const Place &input = work.inputs[rank], &output = work.outputs[rank];
  switch (job.kind) {
    case Kind::kAllReduce:
      return Call(library_.AllReduce, communicator, At(input, 0), static_cast<void*>(output.writable()), job.count,
                  type, op, communicator, on);
    case Kind::kReduce: {
      void* const to = rank == job.root ? output.writable() : nullptr;
      return Call(library_.Reduce, communicator, At(input, 0), to, job.count, type, op, root, communicator, on);
    }
    case Kind::kBroadcast: {
      const void* const from = rank == job.root ? At(input, 0) : nullptr;
      return Call(library_.Broadcast, communicator, from, static_cast<void*>(output.writable()), job.count * item, type,
                  root, communicator, on);
    }
    case Kind::kScatter:
    case Kind::kGather: {
      const bool gathers = job.kind == Kind::kGather;
      for (uint32_t peer = 0; peer < job.ranks; ++peer) {
        // A pair of the root and another has the other's part.
        if (peer == rank || (peer != job.root && rank != job.root)) continue;
        const bool sends = gathers ? peer == job.root : rank == job.root;
        const Part part = job.part(rank == job.root ? peer : rank);
        const uint64_t offset = rank == job.root ? part.begin * item : 0, bytes = part.elements * item;
        if (bytes == 0) continue;
        const int with = static_cast<int>(peer);
        KILN_RETURN_IF_ERROR(
            sends ? Call(library_.Send, communicator, At(input, offset), bytes, type, with, communicator, on)
                  : Call(library_.Recv, communicator, static_cast<void*>(output.writable(offset)), bytes, type, with,
                         communicator, on));
      }
      return absl::OkStatus();
    }
    case Kind::kAllGather:
    case Kind::kReduceScatter:
      // Parts need not be of one length, as the library's own want them: one collective for each.
      for (uint32_t owner = 0; owner < job.ranks; ++owner) {
        const Part part = job.part(owner);
        if (part.elements == 0) continue;
        const int at = static_cast<int>(owner);
        const uint64_t offset = part.begin * item;
        const bool mine = owner == rank;
        if (job.kind == Kind::kAllGather) {
          const void* const from = mine ? At(input, 0) : nullptr;
          KILN_RETURN_IF_ERROR(Call(library_.Broadcast, communicator, from, static_cast<void*>(output.writable(offset)),
                                    part.elements * item, type, at, communicator, on));
        } else {
          void* const to = mine ? output.writable() : nullptr;
          KILN_RETURN_IF_ERROR(Call(library_.Reduce, communicator, At(input, offset), to, part.elements, type, op, at,
                                    communicator, on));
        }
      }
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Nccl::Await(const VendorWork& work, const Team& team, const std::vector<Member*>& members,
                         absl::Duration timeout) {
  const absl::Time begin = SteadyNow();
  const double bytes = static_cast<double>(work.job.count * work.job.item_bytes);
  const absl::Duration max_wait = timeout + absl::Seconds(bytes / kMinBytesPerSecond);
  for (size_t rank = 0; rank < members.size();) {
    KILN_ASSIGN_OR_RETURN(const bool happened, members[rank]->card->Happened(members[rank]->done.get()));
    if (happened) {
      ++rank;
      continue;
    }
    for (void* communicator : team.communicators) {
      int code = 0;
      KILN_RETURN_IF_ERROR(Call(library_.CommGetAsyncError, communicator, communicator, &code));
      if (code != 0) return Failed("a collective under way", code, communicator);
    }
    const absl::Duration waited = SteadyNow() - begin;
    if (waited > max_wait) {
      v1::ErrorDetail detail;
      detail.set_code(v1::PARTICIPANT_MISSING);
      detail.set_field(members[rank]->card->facts().name);
      detail.set_limit("milliseconds to wait for a participant");
      detail.set_limit_value(static_cast<uint64_t>(absl::ToInt64Milliseconds(max_wait)));
      return MakeError(std::move(detail), absl::StrCat(name_, ": ", members[rank]->card->facts().name,
                                                       " was not done with a collective within ",
                                                       absl::FormatDuration(max_wait), "; the outputs are anything"));
    }
    // Short ones are not slept over, and for long ones nobody burns a core.
    if (waited > absl::Microseconds(100)) absl::SleepFor(std::min(waited / 8, absl::Milliseconds(2)));
  }
  return absl::OkStatus();
}

void Nccl::Destroy(Team& team, bool abort) {
  // What a broken communicator says of its end is no news.
  for (void* communicator : team.communicators) {
    (abort ? library_.CommAbort : library_.CommDestroy).function()(communicator);
  }
}

template <typename... Parameters, typename... Arguments>
absl::Status Nccl::Call(const EntryPoints::Entry<int(Parameters...)>& entry, void* communicator,
                        Arguments... arguments) {
  const int code = entry.function()(arguments...);
  return code == 0 ? absl::OkStatus() : Failed(entry.name(), code, communicator);
}

absl::Status Nccl::Failed(const char* call, int code, void* communicator) {
  const char* const text = library_.GetErrorString.function()(code);
  const char* const more = library_.GetLastError.function()(communicator);
  std::string message =
      absl::StrCat(name_, ": ", call, ": error ", code, " (", text == nullptr ? "no text" : text, ")");
  if (more != nullptr && *more != 0) absl::StrAppend(&message, ": ", more);
  return MakeError(v1::INTERNAL_FAULT, message);
}

}  // namespace kiln::runtime::gpu
