// Memory that clients name: only what is the caller's own, never mapped, bounded. The folder is one of the test's.
#include "server/shared_memory/named_regions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/account.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

class NamedRegionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/named-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    Open(1 << 20);
  }

  void Open(uint64_t max_bytes) {
    NamedRegions::Options options;
    options.max_bytes = max_bytes;
    options.folder = folder_;
    auto opened = NamedRegions::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    regions_ = *std::move(opened);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Put(const std::string& name, const std::string& bytes) {
    const int file = open(Path(name).c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ASSERT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(file);
  }
  std::string Get(const std::string& name) {
    std::string bytes(64, '?');
    const int file = open(Path(name).c_str(), O_RDONLY);
    bytes.resize(static_cast<size_t>(read(file, bytes.data(), bytes.size())));
    close(file);
    return bytes;
  }

  absl::Status Register(const std::string& name, const std::string& key, uint64_t offset, uint64_t bytes,
                        Account* account = nullptr) {
    return regions_->Register(me_, name, key, offset, bytes, account);
  }

  std::string folder_;
  std::unique_ptr<NamedRegions> regions_;
  const RegionOwner me_ = {"a", geteuid()};
};

v1::ErrorDetail Detail(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()); }

TEST_F(NamedRegionsTest, BytesAreReadAndWrittenInPlace) {
  Put("k", "0123456789");
  ASSERT_TRUE(Register("in", "/k", 2, 6).ok());
  const auto region = *regions_->Find(me_, "in");
  EXPECT_EQ(region->key(), "/k");
  char read[4];
  ASSERT_TRUE(region->Read(1, 4, read).ok());
  EXPECT_EQ(std::string(read, 4), "3456");
  ASSERT_TRUE(region->Write(4, "xy").ok());
  EXPECT_EQ(Get("k"), "012345xy89");
  EXPECT_EQ(regions_->bytes(), 6u);
  EXPECT_EQ(regions_->Of(me_).size(), 1u);
  // Nothing outside of the region, though the file goes on.
  for (const auto& [offset, bytes] :
       std::vector<std::pair<uint64_t, uint64_t>>{{5, 2}, {6, 1}, {7, 0}, {0, 7}, {~uint64_t{0}, 2}, {2, ~uint64_t{0}}})
    EXPECT_EQ(Detail(region->Check(offset, bytes)).code(), v1::BAD_ARGUMENT) << offset << " " << bytes;
  EXPECT_TRUE(region->Check(6, 0).ok());
}

TEST_F(NamedRegionsTest, AFileThatBecomesShorterIsAnError) {
  Put("k", std::string(4096, 'x'));
  ASSERT_TRUE(Register("in", "k", 0, 4096).ok());
  const auto region = *regions_->Find(me_, "in");
  ASSERT_EQ(truncate(Path("k").c_str(), 100), 0);
  std::string bytes(4096, '\0');
  EXPECT_EQ(Detail(region->Read(0, 4096, bytes.data())).code(), v1::BAD_SHARED_MEMORY);
  EXPECT_EQ(Detail(region->Write(0, bytes)).code(), v1::BAD_SHARED_MEMORY);
  // It is not made longer again.
  struct stat file = {};
  ASSERT_EQ(stat(Path("k").c_str(), &file), 0);
  EXPECT_EQ(file.st_size, 100);
  EXPECT_TRUE(region->Read(0, 100, bytes.data()).ok());
}

TEST_F(NamedRegionsTest, KeysNameOneFileOfTheFolder) {
  Put("k", "0123");
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("."), std::string("/.."), std::string("../k"), std::string("//k"),
        std::string("/k/"), std::string("a/b"), std::string("k\0", 2), std::string("k\n"), std::string("\xff"),
        std::string("/proc/self/mem"), std::string(256, 'k')}) {
    const auto detail = Detail(Register("in", key, 0, 4));
    EXPECT_EQ(detail.code(), v1::BAD_ARGUMENT) << key;
    EXPECT_EQ(detail.field(), "key") << key;
  }
  EXPECT_EQ(Detail(Register("in", std::string(255, 'k'), 0, 4)).code(), v1::UNKNOWN_HANDLE);
}

TEST_F(NamedRegionsTest, WhatIsNoOwnFileIsNotThere) {
  Put("k", "0123");
  ASSERT_EQ(symlink("k", Path("link").c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", Path("out").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir(Path("folder").c_str(), 0700), 0);
  for (const char* key : {"none", "link", "out", "pipe", "folder"}) {
    const absl::Status status = Register("in", key, 0, 4);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_EQ(Detail(status).field(), "key");
    EXPECT_NE(status.message().find("shared memory region \"in\""), absl::string_view::npos) << status;
  }
  // Another's, as if there were none.
  const RegionOwner other = {"a", geteuid() + 1};
  const absl::Status of_other = regions_->Register(other, "in", "k", 0, 4, nullptr);
  const absl::Status of_none = regions_->Register(other, "in", "n", 0, 4, nullptr);
  EXPECT_EQ(Detail(of_other).code(), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(of_other.message().size(), of_none.message().size());
  EXPECT_EQ(regions_->bytes(), 0u);
}

TEST_F(NamedRegionsTest, BytesMustBeTheFiles) {
  Put("k", "0123456789");
  const uint64_t most = ~uint64_t{0};
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 0}, {0, 11}, {10, 1}, {11, 1}, {5, 6}, {most, 1}, {1, most}, {most, most}, {uint64_t{1} << 63, 1}}) {
    const auto detail = Detail(Register("in", "k", offset, bytes));
    EXPECT_EQ(detail.code(), v1::BAD_ARGUMENT) << offset << " " << bytes;
    EXPECT_EQ(detail.field(), "byte_size");
  }
  EXPECT_TRUE(Register("in", "k", 9, 1).ok());
}

TEST_F(NamedRegionsTest, NamesAreOnesOwn) {
  Put("k", "0123");
  ASSERT_TRUE(Register("in", "k", 0, 4).ok());
  EXPECT_EQ(Register("in", "k", 0, 2).code(), absl::StatusCode::kAlreadyExists);
  for (const RegionOwner& other : {RegionOwner{"b", me_.user}, RegionOwner{"a", me_.user + 1}, RegionOwner{}}) {
    EXPECT_EQ(Detail(regions_->Find(other, "in").status()).code(), v1::UNKNOWN_HANDLE);
    EXPECT_TRUE(regions_->Of(other).empty());
    regions_->Unregister(other, "in");
    regions_->Unregister(other, "");
  }
  const RegionOwner b = {"b", me_.user};
  EXPECT_TRUE(regions_->Register(b, "in", "k", 0, 2, nullptr).ok());
  EXPECT_EQ((*regions_->Find(me_, "in"))->bytes(), 4u);
  EXPECT_EQ((*regions_->Find(b, "in"))->bytes(), 2u);
  for (const std::string& name : {std::string(), std::string(256, 'n'), std::string("a b"), std::string("a\nb")})
    EXPECT_EQ(Detail(Register(name, "k", 0, 4)).code(), v1::BAD_ARGUMENT) << name;
}

TEST_F(NamedRegionsTest, WhatIsForgottenEndsWithItsLastUse) {
  Put("k", "0123");
  ASSERT_TRUE(Register("in", "k", 0, 4).ok());
  ASSERT_TRUE(Register("out", "k", 0, 4).ok());
  const auto region = *regions_->Find(me_, "in");
  regions_->Unregister(me_, "in");
  regions_->Unregister(me_, "in");  // as Triton has it
  EXPECT_FALSE(regions_->Find(me_, "in").ok());
  EXPECT_TRUE(regions_->Find(me_, "out").ok());
  char read[4];
  EXPECT_TRUE(region->Read(0, 4, read).ok());
  regions_->Unregister(me_, "");
  EXPECT_EQ(regions_->bytes(), 0u);
  ASSERT_TRUE(Register("in", "k", 0, 4).ok());
  regions_->KeepOnly({"a", "b"});
  EXPECT_TRUE(regions_->Find(me_, "in").ok());
  regions_->KeepOnly({"b"});
  EXPECT_FALSE(regions_->Find(me_, "in").ok());
  EXPECT_EQ(regions_->bytes(), 0u);
}

TEST_F(NamedRegionsTest, AreBoundedInNumberAndBytes) {
  Put("k", std::string(100, 'x'));
  for (size_t i = 0; i < NamedRegions::kMaxRegionsOfOwner; ++i)
    ASSERT_TRUE(Register(absl::StrCat("r", i), "k", 0, 1).ok()) << i;
  const absl::Status many = Register("more", "k", 0, 1);
  EXPECT_EQ(Detail(many).code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(Detail(many).limit(), "shared memory regions");
  regions_->Unregister(me_, "r0");
  EXPECT_TRUE(Register("more", "k", 0, 1).ok());
  Open(150);
  ASSERT_TRUE(Register("r", "k", 0, 100).ok());
  const absl::Status large = Register("more", "k", 0, 51);
  EXPECT_EQ(Detail(large).limit(), "shared memory bytes");
  EXPECT_TRUE(Register("more", "k", 0, 50).ok());
}

TEST_F(NamedRegionsTest, MemoryWithoutANameMakesRoom) {
  Open(100);
  Put("k", std::string(60, 'x'));
  Put("l", std::string(60, 'y'));
  ASSERT_TRUE(Register("one", "k", 0, 60).ok());
  EXPECT_EQ(Detail(Register("two", "l", 0, 60)).code(), v1::OUT_OF_MEMORY);
  ASSERT_EQ(unlink(Path("k").c_str()), 0);
  char read[1];
  EXPECT_TRUE((*regions_->Find(me_, "one"))->Read(59, 1, read).ok());  // until then it serves
  // Another's is nobody else's to have dropped.
  EXPECT_EQ(Detail(regions_->Register({"b", me_.user}, "two", "l", 0, 60, nullptr)).code(), v1::OUT_OF_MEMORY);
  EXPECT_TRUE(Register("two", "l", 0, 60).ok());
  EXPECT_FALSE(regions_->Find(me_, "one").ok());
}

TEST_F(NamedRegionsTest, ATenantPaysForWhatItHas) {
  Account account("a");
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kRegions)] = 2;
  limits[static_cast<size_t>(Quota::kRegionBytes)] = 10;
  account.SetLimits(limits);
  Put("k", std::string(100, 'x'));
  EXPECT_EQ(Detail(Register("in", "k", 0, 11, &account)).limit(), "shared_memory_bytes");
  EXPECT_EQ(account.used(Quota::kRegions), 0u);
  ASSERT_TRUE(Register("r0", "k", 0, 5, &account).ok());
  ASSERT_TRUE(Register("r1", "k", 0, 1, &account).ok());
  EXPECT_EQ(account.used(Quota::kRegionBytes), 6u);
  EXPECT_EQ(Detail(Register("r2", "k", 0, 1, &account)).limit(), "shared_memory_regions");
  regions_->Unregister(me_, "");
  EXPECT_EQ(account.used(Quota::kRegions), 0u);
  EXPECT_EQ(account.used(Quota::kRegionBytes), 0u);
}

}  // namespace
}  // namespace kiln::server
