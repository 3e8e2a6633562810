#include "server/port/unix_users.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

// Answers every call with the user by whose connection it came.
class WhoAsks final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    class Answer final : public grpc::ServerGenericBidiReactor {
     public:
      explicit Answer(const std::string& text) {
        const grpc::Slice slice(text);
        message_ = grpc::ByteBuffer(&slice, 1);
        StartWriteAndFinish(&message_, {}, grpc::Status::OK);
      }
      void OnDone() override { delete this; }

     private:
      grpc::ByteBuffer message_;
    };
    const auto user = UnixUsers::UserOf(*context->auth_context());
    return new Answer(user.has_value() ? absl::StrCat(*user) : "nobody");
  }
};

class UnixUsersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    users_ = std::make_unique<UnixUsers>(builder);
    others_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = Path();
    std::memcpy(address.sun_path, path.data(), path.size());
    unlink(path.c_str());
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_, 4), 0);
  }
  void TearDown() override {
    server_->Shutdown(std::chrono::system_clock::now());
    close(listener_);
    unlink(Path().c_str());
  }

  static std::string Path() { return absl::StrCat("/tmp/kiln_unix_users_", getpid()); }

  // A connection that the server takes for one of `user`; 0 is one that is handed over elsewhere.
  std::shared_ptr<grpc::Channel> Connect(uint32_t user) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto channel =
        grpc::CreateCustomChannel(absl::StrCat("unix:", Path()), grpc::InsecureChannelCredentials(), arguments);
    channel->GetState(/*try_to_connect=*/true);
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    EXPECT_GE(connection, 0);
    if (user != 0) {
      EXPECT_TRUE(users_->HandOver(listener_, connection, user));
      return channel;
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener_;
    parameters.fd = connection;
    others_->HandleNewConnection(&parameters);
    return channel;
  }

  static std::string Ask(grpc::Channel& channel) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    context.AddMetadata("kiln_unix_user", "1");  // what a client says of itself is nothing
    const grpc::Slice slice("who am I?");
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    const grpc::internal::RpcMethod rpc("/any.Service/Method", grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
        &channel, rpc, &context, request, &response);
    if (!status.ok()) return status.error_message();
    grpc::Slice answer;
    EXPECT_TRUE(response.DumpToSingleSlice(&answer).ok());
    return std::string(reinterpret_cast<const char*>(answer.begin()), answer.size());
  }

  WhoAsks service_;
  std::unique_ptr<UnixUsers> users_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> others_;
  std::unique_ptr<grpc::Server> server_;
  int listener_ = -1;
};

TEST_F(UnixUsersTest, EveryCallHasTheUserOfItsConnection) {
  const auto one = Connect(1001), two = Connect(4294967290), again = Connect(1001), other = Connect(0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ask(*one), "1001");
    EXPECT_EQ(Ask(*two), "4294967290");
    EXPECT_EQ(Ask(*again), "1001");
    EXPECT_EQ(Ask(*other), "nobody");
  }
}

TEST_F(UnixUsersTest, CallsOfOneConnectionMayComeTogether) {
  const auto channel = Connect(1001);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&channel] {
      for (int call = 0; call < 100; ++call) EXPECT_EQ(Ask(*channel), "1001");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(UnixUsersTest, TooManyUsersAreNotTaken) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (uint32_t user = 1; user <= UnixUsers::kUsers; ++user) channels.push_back(Connect(user));
  EXPECT_FALSE(users_->HandOver(listener_, /*connection=*/-1, UnixUsers::kUsers + 1));
  EXPECT_EQ(Ask(*channels.back()), absl::StrCat(UnixUsers::kUsers));
  EXPECT_EQ(Ask(*Connect(1)), "1");
}

}  // namespace
}  // namespace kiln::server
