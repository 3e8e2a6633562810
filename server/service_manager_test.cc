#include "server/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

using Environment = std::map<std::string, std::string>;

ServiceManager Under(const Environment& environment) {
  return ServiceManager([&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

// The manager's end, at a name in no file system.
class Manager {
 public:
  Manager() : name_(absl::StrCat("kiln-test-", getpid(), "-", reinterpret_cast<uintptr_t>(this))) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~Manager() { close(socket_); }

  std::string address() const { return "@" + name_; }
  std::string Heard() const {
    char text[256];
    const ssize_t size = recv(socket_, text, sizeof(text), 0);
    return std::string(text, size < 0 ? 0 : static_cast<size_t>(size));
  }

 private:
  const std::string name_;
  int socket_;
};

TEST(ServiceManagerTest, TellsHowItIs) {
  const Manager manager;
  ServiceManager told = Under({{"NOTIFY_SOCKET", manager.address()}});
  told.Ready("serving on port 7");
  EXPECT_EQ(manager.Heard(), "READY=1\nSTATUS=serving on port 7");
  told.Reloading();
  EXPECT_TRUE(absl::StartsWith(manager.Heard(), "RELOADING=1\nMONOTONIC_USEC="));
  told.Stopping("draining", absl::Seconds(33));
  EXPECT_EQ(manager.Heard(), "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=33000000");
  told.Alive();
  EXPECT_EQ(manager.Heard(), "WATCHDOG=1");
}

TEST(ServiceManagerTest, AWatchdogIsFedTwiceInItsTime) {
  const Manager manager;
  const std::string own = absl::StrCat(getpid()), address = manager.address();
  EXPECT_EQ(Under({{"NOTIFY_SOCKET", address}, {"WATCHDOG_USEC", "3000000"}, {"WATCHDOG_PID", own}}).period(),
            absl::Milliseconds(1500));
  for (const Environment& none : {Environment{{"NOTIFY_SOCKET", address}},
                                  {{"NOTIFY_SOCKET", address}, {"WATCHDOG_USEC", "0"}},
                                  {{"NOTIFY_SOCKET", address}, {"WATCHDOG_USEC", "soon"}},
                                  {{"NOTIFY_SOCKET", address}, {"WATCHDOG_USEC", "3000000"}, {"WATCHDOG_PID", "1"}},
                                  {{"WATCHDOG_USEC", "3000000"}}})
    EXPECT_EQ(Under(none).period(), absl::InfiniteDuration());
}

TEST(ServiceManagerTest, NobodyThereIsNoFault) {
  for (const std::string& address : {std::string(), std::string("/nowhere/at/all"), std::string(300, '/'),
                                     std::string("host:7"), std::string("@kiln-nobody")}) {
    ServiceManager told = Under({{"NOTIFY_SOCKET", address}});
    told.Ready("x");
    told.Alive();
  }
}

}  // namespace
}  // namespace kiln::server
