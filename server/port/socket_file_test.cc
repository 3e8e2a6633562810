#include "server/port/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

TEST(SocketFileTest, ModesAreThreeOctalDigits) {
  EXPECT_EQ(*ParseSocketMode("660"), 0660u);
  EXPECT_EQ(*ParseSocketMode("0666"), 0666u);
  EXPECT_EQ(*ParseSocketMode("0600"), 0600u);
  for (const char* wrong : {"", "66", "0", "888", "1660", "00660", "rw-rw----", "-660", "0400", "0066"}) {
    const auto parsed = ParseSocketMode(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_NE(parsed.status().message().find("0660 for a group"), absl::string_view::npos) << parsed.status();
  }
}

TEST(SocketFileTest, AGroupWithoutAModeMayConnect) {
  const auto nothing = ParseSocketAccess("", "");
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->mode.has_value());
  EXPECT_FALSE(nothing->group.has_value());
  const auto numbered = ParseSocketAccess("", "4711");
  ASSERT_TRUE(numbered.ok()) << numbered.status();
  EXPECT_EQ(numbered->mode, std::optional<mode_t>(0660));
  EXPECT_EQ(numbered->group, std::optional<gid_t>(4711));
  EXPECT_EQ(*FindGroup("root"), 0u);
  EXPECT_EQ(ParseSocketAccess("0666", "kiln_no_such_group").status().message(),
            "this machine has no group \"kiln_no_such_group\"");
}

TEST(SocketFileTest, OwnGroupsMayBeGivenTo) {
  EXPECT_TRUE(MayGiveToGroup(getegid()));
  EXPECT_EQ(MayGiveToGroup(4711), geteuid() == 0);
}

TEST(SocketFileTest, NothingButASocketIsChanged) {
  char folder[] = "/tmp/kiln_socket_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = absl::StrCat(folder, "/s"), link = absl::StrCat(folder, "/link");
  const auto mode = [&path] {
    struct stat found = {};
    EXPECT_EQ(stat(path.c_str(), &found), 0);
    return found.st_mode & 07777;
  };
  const int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(bound, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  EXPECT_TRUE(SetAccess(path, {}).ok());
  EXPECT_EQ(mode(), 0700u);
  EXPECT_TRUE(SetAccess(path, {0660, getegid()}).ok());
  EXPECT_EQ(mode(), 0660u);
  // Not through a link that somebody has put there.
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_EQ(SetAccess(link, {0666, {}}).message(), "another file has taken the socket's place");
  EXPECT_EQ(mode(), 0660u);
  close(bound);
  unlink(link.c_str());
  unlink(path.c_str());
  rmdir(folder);
}

}  // namespace
}  // namespace kiln::server
