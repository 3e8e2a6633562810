#include "server/port/unix_users.h"

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace kiln::server {
namespace {

constexpr char kUser[] = "kiln_unix_user";

// Is asked before every call of a connection is handed on, perhaps by several threads. What is
// noted stays with the connection, and must not change while another call reads it: it is
// written by the first alone.
class NoteUser final : public grpc::AuthMetadataProcessor {
 public:
  void Set(uint32_t user) {
    absl::MutexLock lock(&mutex_);
    user_ = absl::StrCat(user);
  }

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata&, grpc::AuthContext* connection, OutputMetadata*, OutputMetadata*) override {
    absl::MutexLock lock(&mutex_);
    if (connection->FindPropertyValues(kUser).empty()) connection->AddProperty(kUser, user_);
    return grpc::Status::OK;
  }

 private:
  absl::Mutex mutex_;
  std::string user_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

struct UnixUsers::Slot {
  std::shared_ptr<NoteUser> note = std::make_shared<NoteUser>();
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::optional<uint32_t> user;
};

UnixUsers::UnixUsers(grpc::ServerBuilder& builder) {
  for (size_t i = 0; i < kUsers; ++i) {
    Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
    // Insecure ones take no processor. These check that the socket is a Unix socket, and say nothing.
    const auto credentials = grpc::experimental::LocalServerCredentials(UDS);
    credentials->SetAuthMetadataProcessor(slot.note);
    slot.acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  }
}

UnixUsers::~UnixUsers() = default;

bool UnixUsers::HandOver(int listener, int connection, uint32_t user) {
  // Those without a user are the last ones.
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (!slot->user.has_value()) {
      slot->user = user;
      slot->note->Set(user);
    }
    if (*slot->user != user) continue;
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    slot->acceptor->HandleNewConnection(&parameters);
    return true;
  }
  return false;
}

std::optional<uint32_t> UnixUsers::UserOf(const grpc::AuthContext& connection) {
  const auto noted = connection.FindPropertyValues(kUser);
  uint32_t user = 0;
  if (noted.size() != 1 || !absl::SimpleAtoi(absl::string_view(noted[0].data(), noted[0].size()), &user)) return {};
  return user;
}

}  // namespace kiln::server
