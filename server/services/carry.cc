// DebugService.Export and Import: programs on their way to another server, and from one.
//
// Their work is done on threads that compile, and blocks for a disk: neither a read nor a write of one can be stopped.
// So a call that is cancelled, or whose deadline has passed, is answered at once, and what is being done for it goes on
// to its next look at the call: until then the stream lives, with the memory that it has paid for.
//
// A client that neither takes nor sends a message for CarryPlaces::longest_silence() has its call cancelled: there are
// few places, and others want them.
//
// A piece is read from disk when the one before it has gone, and a message when what the one before it has brought is
// on disk or refused: a client that is slow holds up itself, and there is never more in memory than a message and an
// entry. Import fails with
//   GRAPH_TOO_LARGE   limit "message bytes": more than kMaxMessageBytes
//   OUT_OF_MEMORY     limit "entry bytes", "disk bytes" or "programs carried"
//   CORRUPT_ENTRY     what is no bundle, or no entry that this server's key has sealed; with the entry's place
//   QUOTA_EXCEEDED    of its owner's disk, or of its caller's memory
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/store/bundle_pieces.h"
#include "kiln/v1/debug_service.pb.h"
#include "server/services/requests/silence_watch.h"
#include "server/services/rpcs.h"
#include "server/services/transfer.h"

namespace kiln::server {
namespace {

// `Reactor`: UploadReactor or DownloadReactor. One thing at a time is under way: a read or write of gRPC's, or work.
template <typename Reactor>
class CarryStream : public Reactor {
 public:
  explicit CarryStream(Admitted admitted)
      : admitted_(std::move(admitted)),
        engine_(admitted_->env().engine),
        limits_(LimitsOf(admitted_->env())),
        silence_(std::make_shared<SilenceWatch>(admitted_->context(), engine_.carry_places().longest_silence())) {
    control_.cancelled = &cancelled_;
    control_.deadline = DeadlineOf(admitted_->context());
    control_.account = admitted_->account();
  }

 protected:
  ~CarryStream() override = default;

  const Admitted& admitted() const { return *admitted_; }
  Engine& engine() const { return engine_; }
  const RequestLimits& limits() const { return limits_; }
  const Control& control() const { return control_; }

  // Whose call it is; not in the constructor.
  absl::StatusOr<SessionPtr> Caller() {
    KILN_ASSIGN_OR_RETURN(SessionPtr caller, SessionOf(*admitted_));
    control_.flow = FlowOf(*admitted_, caller);
    return caller;
  }

  // From when the call has its place; what hears of messages.
  SilenceWatch& silence() { return *silence_; }

  // Calls `work` on a thread that may block, while nothing of gRPC's is under way. It uses nothing of admitted().
  // `then` begins what is next with gRPC, unless the call has ended meanwhile; if `work` fails, that is its end.
  void Work(absl::AnyInvocable<absl::Status()> work, absl::AnyInvocable<void()> then) {
    {
      absl::MutexLock lock(&mutex_);
      working_ = true;
    }
    silence_->Heard(/*working=*/true);
    uses_.fetch_add(1, std::memory_order_relaxed);
    engine_.OnCompileThread(control_, [this, work = std::move(work), then = std::move(then)]() mutable {
      absl::Status status = control_.Check();
      if (status.ok()) status = work();
      bool ended = false;
      {
        absl::MutexLock lock(&mutex_);
        working_ = false;
        ended = ended_;
      }
      if (!ended) {
        silence_->Heard();
        status.ok() ? then() : End(std::move(status));
      }
      Release();
    });
  }

  // Gives back the place: whoever has been answered may call again.
  virtual void Drop() = 0;

  // Called while no work is under way. Nothing of this may be touched after it but by work.
  void End(absl::Status status) {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return;
      ended_ = true;
    }
    Drop();
    FinishWith(static_cast<Reactor&>(*this), *admitted_, status);
  }

  // Why there is no more to read, or why nothing more is taken.
  absl::Status Gone() const {
    absl::Status why = control_.Check();
    return why.ok() ? MakeError(v1::CALL_CANCELLED, "the client has gone") : why;
  }

 private:
  void OnCancel() override {
    cancelled_.store(true, std::memory_order_relaxed);
    {
      absl::MutexLock lock(&mutex_);
      // A read or a write ends by itself, and then the call.
      if (!working_ || ended_) return;
      ended_ = true;
    }
    FinishWith(static_cast<Reactor&>(*this), *admitted_, Gone());
  }
  void OnEnd() override {
    silence_->End();
    admitted_.reset();  // work does not hold up the end of a server
    Release();
  }
  void Release() {
    if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  std::optional<Admitted> admitted_;  // until gRPC is done with the call
  Engine& engine_;                    // outlives work
  const RequestLimits limits_;
  const std::shared_ptr<SilenceWatch> silence_;
  std::atomic<bool> cancelled_{false};
  Control control_;
  std::atomic<int> uses_{1};  // by gRPC, and by work
  absl::Mutex mutex_;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// -- Export
class ExportStream final : public CarryStream<DownloadReactor> {
 public:
  explicit ExportStream(Admitted admitted) : CarryStream(std::move(admitted)) {}

  // `bytes` are gRPC's until the call is done.
  void Begin(const grpc::ByteBuffer& bytes) {
    if (absl::Status status = Open(bytes); !status.ok()) return End(std::move(status));
    silence().Begin();
    Read();
  }

 private:
  void Drop() override { programs_.reset(); }

  absl::Status Open(const grpc::ByteBuffer& bytes) {
    KILN_ASSIGN_OR_RETURN(caller_, Caller());
    v1::ExportRequest request;
    KILN_RETURN_IF_ERROR(CheckSmall(bytes));
    KILN_RETURN_IF_ERROR(Decode(bytes, limits(), request));
    const TenantPtr& tenant = admitted().tenant();
    if (request.all()) Require(Right::kAdmin);
    if (request.all() && tenant != nullptr && !tenant->Has(Right::kAdmin)) return WithoutRight(*tenant, Right::kAdmin);
    KILN_ASSIGN_OR_RETURN(programs_, engine().Export(caller_.get(), request.all(), CallerOf(admitted())));
    // Of the piece that is read, and the message that travels.
    KILN_ASSIGN_OR_RETURN(charge_, Hold(control().account, Quota::kHostBytes, 2 * kChunkBytes));
    return absl::OkStatus();
  }

  void Read() {
    Work(
        [this]() -> absl::Status {
          piece_.clear();
          KILN_ASSIGN_OR_RETURN(piece_, programs_->Next(control(), [this](uint64_t bytes) {
            const uint64_t needed = bytes + kChunkBytes;
            return needed > charge_.amount() ? charge_.Grow(needed - charge_.amount()) : absl::OkStatus();
          }));
          sent_ = 0;
          return absl::OkStatus();
        },
        [this] { Send(); });
  }

  void Send() {
    v1::ExportResponse response;
    if (piece_.empty()) {
      response.set_programs(programs_->programs());
      response.set_left_out(programs_->left_out());
      last_ = true;
    } else {
      const absl::string_view chunk = absl::string_view(piece_).substr(sent_, kChunkBytes);
      response.set_chunk(chunk.data(), chunk.size());
      sent_ += chunk.size();
    }
    if (absl::Status status = Encode(response, message_); !status.ok()) return End(std::move(status));
    CountSent(admitted(), message_);
    StartWrite(&message_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(Gone());
    silence().Heard();
    if (last_) return End(absl::OkStatus());
    sent_ < piece_.size() ? Send() : Read();
  }

  SessionPtr caller_;
  Charge charge_;
  std::unique_ptr<ProgramExport> programs_;
  std::string piece_;
  size_t sent_ = 0;  // of it
  bool last_ = false;
  grpc::ByteBuffer message_;  // while it is written, gRPC's
};

// -- Import
// A chunk of so much, and what stands around it.
constexpr uint64_t kMaxMessageBytes = (4 << 20) + 64;
// An entry, decoded, and written anew.
constexpr uint64_t kCopies = 3;

class ImportStream final : public CarryStream<UploadReactor> {
 public:
  ImportStream(Admitted admitted, grpc::ByteBuffer* response) : CarryStream(std::move(admitted)), response_(response) {}

  void Begin() {
    if (absl::Status status = Open(); !status.ok()) return End(std::move(status));
    silence().Begin();
    StartRead(&message_);
  }

 private:
  void Drop() override { programs_.reset(); }

  absl::Status Open() {
    KILN_ASSIGN_OR_RETURN(const SessionPtr caller, Caller());
    KILN_ASSIGN_OR_RETURN(programs_, engine().Import(caller, CallerOf(admitted())));
    // Who may send no more for a while is told before, and not in the middle.
    KILN_RETURN_IF_ERROR(CheckRate(control().account, Quota::kUploadBytes));
    message_charge_ = ChargeOf(control().account, Quota::kHostBytes);
    entry_charge_ = ChargeOf(control().account, Quota::kHostBytes);
    return absl::OkStatus();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return AtEnd();
    silence().Heard();
    CountReceived(admitted(), message_);
    Owe(control().account, Quota::kUploadBytes, static_cast<double>(message_.Length()));
    Work([this] { return Take(); }, [this] { StartRead(&message_); });
  }

  absl::Status Take() {
    const uint64_t bytes = message_.Length();
    if (bytes > kMaxMessageBytes) {
      return TooLarge("message bytes", kMaxMessageBytes, bytes,
                      absl::StrCat("a message of ", bytes, " bytes; send pieces of at most ", kMaxMessageBytes));
    }
    message_charge_.Release();
    KILN_RETURN_IF_ERROR(message_charge_.Grow(2 * bytes));
    v1::ImportRequest request;
    KILN_RETURN_IF_ERROR(Decode(message_, limits(), request, control()));
    KILN_RETURN_IF_ERROR(pieces_.Add(request.chunk(), [this](std::string entry) -> absl::Status {
      ++entries_;
      KILN_RETURN_IF_ERROR(control().Check());
      KILN_RETURN_IF_ERROR(PayForEntry(entry.size()));
      absl::Status status = programs_->Take(std::move(entry));
      return status.ok() ? status : Annotate(status, absl::StrCat("entry ", entries_, " of the bundle"));
    }));
    return PayForEntry(pieces_.entry_bytes());
  }

  // Of the one that has begun, all that it will take: there is no use in half of it.
  absl::Status PayForEntry(uint64_t bytes) {
    entry_charge_.Release();
    return entry_charge_.Grow(kCopies * bytes);
  }

  // The client has sent all it will, or has gone.
  void AtEnd() {
    absl::Status status = control().Check();
    if (status.ok()) status = pieces_.Finish();
    if (status.ok()) status = Answer();
    End(std::move(status));
  }

  absl::Status Answer() {
    v1::ImportResponse response;
    response.set_programs(programs_->programs());
    response.set_unfit(programs_->unfit());
    for (const auto& [graph_hash, field] : programs_->first_unfit()) {
      v1::ImportResponse::Unfit& unfit = *response.add_first_unfit();
      unfit.set_graph_hash(graph_hash);
      unfit.set_field(field);
    }
    KILN_RETURN_IF_ERROR(Encode(response, *response_));
    CountSent(admitted(), *response_);
    return absl::OkStatus();
  }

  grpc::ByteBuffer* const response_;  // gRPC's, until the call is done
  grpc::ByteBuffer message_;          // while it is read, gRPC's
  Charge message_charge_, entry_charge_;
  std::unique_ptr<ProgramImport> programs_;
  store::BundlePieces pieces_{kMaxCarriedBytes};
  uint64_t entries_ = 0;
};

}  // namespace

DownloadReactor* rpc::DebugService::Export(Admitted admitted, const grpc::ByteBuffer& request) {
  auto* stream = new ExportStream(std::move(admitted));
  stream->Begin(request);
  return stream;
}

UploadReactor* rpc::DebugService::Import(Admitted admitted, grpc::ByteBuffer* response) {
  auto* stream = new ImportStream(std::move(admitted), response);
  stream->Begin();
  return stream;
}

}  // namespace kiln::server
