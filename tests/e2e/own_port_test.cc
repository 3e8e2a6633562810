// Whether a server notices that its own port is dead: what the service manager is told rests on it (server/main.cc).
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

// Of this process, the sockets that listen at `port`.
std::vector<int> ListenersAt(int port) {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  while (const dirent* entry = readdir(folder.get())) {
    int descriptor = 0, listens = 0;
    if (!absl::SimpleAtoi(entry->d_name, &descriptor)) continue;
    socklen_t size = sizeof(listens);
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_in address = {};
    size = sizeof(address);
    getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
    if (address.sin_family == AF_INET && ntohs(address.sin_port) == port) found.push_back(descriptor);
  }
  return found;
}

using OwnPortTest = ServerTest;

TEST_F(OwnPortTest, APortThatListensNoMoreIsNoticedThoughGrpcAnswers) {
  EXPECT_TRUE(server_->Answers(absl::Minutes(1)));
  const std::vector<int> listeners = ListenersAt(server_->port());
  ASSERT_EQ(listeners.size(), 1u);
  // As a listener is that has died: who is connected is served on, and nobody else comes in.
  EXPECT_EQ(Health(*stubs_), grpc::health::v1::HealthCheckResponse::SERVING);
  ASSERT_EQ(shutdown(listeners[0], SHUT_RDWR), 0);
  EXPECT_EQ(Health(*stubs_), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_FALSE(server_->Answers(absl::Minutes(1)));
}

}  // namespace
}  // namespace kiln::e2e
