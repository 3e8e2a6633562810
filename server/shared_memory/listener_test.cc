// Memory changes hands, or is refused with a reason; nothing that a client does to it
// afterwards can hurt who has it mapped.
#include "server/shared_memory/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/account.h"
#include "base/error.h"

namespace kiln::server {
namespace {

constexpr uint64_t kBytes = 1 << 16;
constexpr uint64_t kMaxBytes = 1 << 20;

struct File {
  explicit File(int descriptor) : descriptor(descriptor) {}
  File(File&& other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  int descriptor;
};

File Memory(uint64_t bytes, int seals = F_SEAL_SHRINK, unsigned flags = MFD_ALLOW_SEALING) {
  File file(memfd_create("test", flags | MFD_CLOEXEC));
  EXPECT_GE(file.descriptor, 0);
  EXPECT_EQ(ftruncate(file.descriptor, static_cast<off_t>(bytes)), 0);
  EXPECT_TRUE(seals == 0 || fcntl(file.descriptor, F_ADD_SEALS, seals) == 0);
  return file;
}

// A client's end.
class Client {
 public:
  explicit Client(const std::string& path) : socket_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(connect(socket_.descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  void Say(const std::string& text, const std::vector<int>& files) {
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    std::string bytes = text;
    iovec part{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!files.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
      cmsghdr* row = CMSG_FIRSTHDR(&header);
      row->cmsg_level = SOL_SOCKET;
      row->cmsg_type = SCM_RIGHTS;
      row->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
      std::memcpy(CMSG_DATA(row), files.data(), files.size() * sizeof(int));
    }
    EXPECT_EQ(sendmsg(socket_.descriptor, &header, MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  void Bring(uint64_t handle, int file) { Say(std::string(reinterpret_cast<const char*>(&handle), 8), {file}); }

  // All of one message; "" at the end of the connection.
  std::string Hear() {
    char text[4096];
    const ssize_t size = recv(socket_.descriptor, text, sizeof(text), 0);
    return size <= 0 ? "" : std::string(text, size);
  }

 private:
  File socket_;
};

class Listener : public ::testing::Test {
 protected:
  Listener() { Open(absl::Seconds(60)); }

  void Open(absl::Duration timeout) {
    listener_.reset();
    auto listener = SharedMemoryListener::Open("", kMaxBytes, timeout);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  uint64_t Reserve(uint64_t bytes) {
    const auto handle = listener_->regions().Reserve(bytes, nullptr);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.value_or(0);
  }

  // Whether the region comes to be forgotten; the listener hears of an end in its own time.
  bool IsForgotten(uint64_t bytes_left) {
    for (int i = 0; i < 60000 && listener_->regions().bytes() != bytes_left; ++i) usleep(1000);
    return listener_->regions().bytes() == bytes_left;
  }

  void ExpectRefused(int file, const std::string& why) {
    Client client(listener_->path());
    client.Bring(Reserve(kBytes), file);
    const std::string answer = client.Hear();
    ASSERT_FALSE(answer.empty());
    EXPECT_EQ(answer[0], 1);
    EXPECT_NE(answer.find(why), std::string::npos) << answer;
    EXPECT_EQ(client.Hear(), "");
    EXPECT_EQ(listener_->regions().bytes(), 0u);
  }

  std::unique_ptr<SharedMemoryListener> listener_;
};

TEST_F(Listener, WhatIsBroughtIsSharedUntilTheConnectionEnds) {
  const uint64_t handle = Reserve(kBytes);
  EXPECT_FALSE(listener_->regions().Find(handle, 0, 1, nullptr).ok());
  absl::StatusOr<SharedBytes> kept = absl::UnknownError("");
  {
    File file = Memory(kBytes);
    ASSERT_EQ(pwrite(file.descriptor, "hello", 5, 100), 5);
    Client client(listener_->path());
    client.Bring(handle, file.descriptor);
    ASSERT_EQ(client.Hear(), std::string(1, '\0'));
    kept = listener_->regions().Find(handle, 100, 5, nullptr);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(std::string(kept->data, 5), "hello");
    std::memcpy(kept->data, "world", 5);
    char read[5];
    ASSERT_EQ(pread(file.descriptor, read, 5, 100), 5);
    EXPECT_EQ(std::string(read, 5), "world");
    EXPECT_NE(ftruncate(file.descriptor, 0), 0) << "a sealed file must not shrink";
  }
  EXPECT_TRUE(IsForgotten(0));
  EXPECT_EQ(DetailOf(listener_->regions().Find(handle, 0, 1, nullptr).status())->code(), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(std::string(kept->data, 5), "world");  // a transfer that is under way
}

TEST_F(Listener, MemoryThatMightFaultIsRefused) {
  ExpectRefused(Memory(kBytes - 1).descriptor, "said to have 65536");
  ExpectRefused(Memory(kBytes, 0).descriptor, "it may shrink");
  ExpectRefused(Memory(kBytes, 0, 0).descriptor, "it may shrink");
  ExpectRefused(Memory(kBytes, F_SEAL_SHRINK | F_SEAL_WRITE).descriptor, "cannot be mapped");
  ExpectRefused(File(open("/dev/null", O_RDWR | O_CLOEXEC)).descriptor, "memfd");
  ExpectRefused(File(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)).descriptor, "memfd");
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const File in(pipes[0]), out(pipes[1]);
  ExpectRefused(in.descriptor, "no memfd");
  // Where the system has huge pages at all.
  if (File huge(memfd_create("huge", MFD_HUGETLB | MFD_ALLOW_SEALING | MFD_CLOEXEC)); huge.descriptor >= 0) {
    ExpectRefused(huge.descriptor, "no memfd of ordinary pages");
  }
}

TEST_F(Listener, WhatIsNoHandOverEndsTheConnection) {
  const File file = Memory(kBytes);
  for (const auto& [text, files] : std::vector<std::pair<std::string, std::vector<int>>>{
           {"1234567", {file.descriptor}},
           {"123456789", {file.descriptor}},
           {"12345678", {}},
           {"12345678", {file.descriptor, file.descriptor}},
           {"12345678", std::vector<int>(8, file.descriptor)},
       }) {
    Client client(listener_->path());
    client.Say(text, files);
    EXPECT_NE(client.Hear().find("8 bytes of its handle"), std::string::npos) << text;
    EXPECT_EQ(client.Hear(), "");
  }
  Client stranger(listener_->path());
  stranger.Bring(12345, file.descriptor);
  EXPECT_NE(stranger.Hear().find("no shared memory has the handle"), std::string::npos);
  // What was brought once is not brought again.
  const uint64_t handle = Reserve(kBytes);
  Client first(listener_->path()), second(listener_->path());
  first.Bring(handle, file.descriptor);
  ASSERT_EQ(first.Hear(), std::string(1, '\0'));
  second.Bring(handle, file.descriptor);
  EXPECT_NE(second.Hear().find("no shared memory has the handle"), std::string::npos);
  EXPECT_TRUE(listener_->regions().Find(handle, 0, kBytes, nullptr).ok());
  first.Bring(handle, file.descriptor);
  EXPECT_EQ(first.Hear(), "");
  EXPECT_TRUE(IsForgotten(0));
}

TEST_F(Listener, RegionsHaveLimitsOwnersAndBounds) {
  const auto more = listener_->regions().Reserve(kMaxBytes + 1, nullptr);
  EXPECT_EQ(DetailOf(more.status())->limit(), "shared memory bytes");
  EXPECT_EQ(DetailOf(listener_->regions().Reserve(0, nullptr).status())->code(), v1::BAD_ARGUMENT);
  const auto session = std::make_shared<Session>(), other = std::make_shared<Session>();
  const auto handle = listener_->regions().Reserve(kBytes, session);
  ASSERT_TRUE(handle.ok());
  const File file = Memory(kBytes);
  Client client(listener_->path());
  client.Bring(*handle, file.descriptor);
  ASSERT_EQ(client.Hear(), std::string(1, '\0'));
  const SharedRegions& regions = listener_->regions();
  EXPECT_TRUE(regions.Find(*handle, kBytes, 0, session.get()).ok());
  for (const auto& [offset, bytes] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, kBytes + 1}, {kBytes, 1}, {~uint64_t{0}, 2}, {1, ~uint64_t{0}}}) {
    EXPECT_EQ(DetailOf(regions.Find(*handle, offset, bytes, session.get()).status())->code(), v1::OUT_OF_BOUNDS);
  }
  for (const Session* stranger : {static_cast<const Session*>(nullptr), static_cast<const Session*>(other.get())}) {
    EXPECT_EQ(DetailOf(regions.Find(*handle, 0, 1, stranger).status())->code(), v1::UNKNOWN_HANDLE);
  }
}

TEST(SharedRegionsQuota, IsCountedUntilARegionIsDropped) {
  Account account;
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kRegions)] = 2;
  limits[static_cast<size_t>(Quota::kRegionBytes)] = 100;
  account.SetLimits(limits);
  const auto session = std::make_shared<Session>("a", TrustDomain(), &account);
  SharedRegions regions(/*max_bytes=*/1 << 20, /*timeout=*/absl::Hours(1));
  const uint64_t one = *regions.Reserve(60, session);
  const auto refused = DetailOf(regions.Reserve(41, session).status());
  EXPECT_EQ(refused->code(), v1::QUOTA_EXCEEDED);
  EXPECT_EQ(refused->limit(), "shared_memory_bytes");
  EXPECT_EQ(account.used(Quota::kRegions), 1u);
  const uint64_t two = *regions.Reserve(40, session);
  EXPECT_EQ(DetailOf(regions.Reserve(1, session).status())->limit(), "shared_memory_regions");
  EXPECT_TRUE(regions.Reserve(1'000, nullptr).ok());
  regions.Drop(one);
  regions.Drop(two);
  EXPECT_EQ(account.used(Quota::kRegions) + account.used(Quota::kRegionBytes), 0u);
}

TEST_F(Listener, AClientThatDoesNotComeInTimeIsNotWaitedFor) {
  Open(absl::Milliseconds(20));
  Client silent(listener_->path());
  EXPECT_EQ(silent.Hear(), "");
  // Nobody brings it: its room is for others, as soon as it is late.
  const uint64_t handle = Reserve(kMaxBytes);
  while (!listener_->regions().Reserve(kMaxBytes, nullptr).ok()) usleep(1000);
  Client late(listener_->path());
  const File file = Memory(kMaxBytes);
  late.Bring(handle, file.descriptor);
  EXPECT_NE(late.Hear().find("no shared memory has the handle"), std::string::npos);
}

TEST(ListenerPath, IsFreedAndNeverTakenFromAnother) {
  // A socket's path has at most 107 characters, so it is not below the test's own folder.
  char folder[] = "/tmp/kiln-listener-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/s";
  {
    auto first = SharedMemoryListener::Open(path, kMaxBytes);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_FALSE(SharedMemoryListener::Open(path, kMaxBytes).ok());
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << "who could not have it must not remove it";
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  // A server that was killed leaves its socket.
  {
    File dead(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(bind(dead.descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(SharedMemoryListener::Open(path, kMaxBytes).ok());
  EXPECT_FALSE(SharedMemoryListener::Open(std::string(200, 'x'), kMaxBytes).ok());
  EXPECT_EQ(rmdir(folder), 0);
}

}  // namespace
}  // namespace kiln::server
