#include "server/identity/domain_secret.h"

#include <sys/stat.h>

#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

std::string NewFolder(const char* name) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/", name);
  mkdir(folder.c_str(), 0700);
  return folder;
}

TEST(DomainSecret, IsOfOneProcessWithoutAFolder) {
  const auto one = DomainSecret(""), other = DomainSecret("");
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->size(), 32u);
  EXPECT_NE(*one, *other);
}

TEST(DomainSecret, IsOneOfAllThatBeginAtOnceInAFolder) {
  const std::string folder = NewFolder("shared");
  std::vector<std::string> secrets(8);
  std::vector<std::thread> servers;
  for (std::string& secret : secrets) {
    servers.emplace_back([&folder, &secret] { secret = DomainSecret(folder).value_or("none"); });
  }
  for (std::thread& server : servers) server.join();
  // A process makes one draft at a time; threads of one may find another's.
  std::set<std::string> found(secrets.begin(), secrets.end());
  found.erase("none");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(*DomainSecret(folder), *found.begin());
  struct stat info = {};
  ASSERT_EQ(stat((folder + "/domain_secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(DomainSecret, AFileThatIsNoneIsRefused) {
  const std::string folder = NewFolder("short");
  std::ofstream(folder + "/domain_secret") << "short";
  const auto secret = DomainSecret(folder);
  EXPECT_NE(secret.status().message().find("32 bytes"), absl::string_view::npos) << secret.status();
  EXPECT_FALSE(DomainSecret("/nonexistent").ok());
}

}  // namespace
}  // namespace kiln::server
