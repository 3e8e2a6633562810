#include "server/models/folder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kiln::server {
namespace {

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/models-XXXXXX";
    ASSERT_NE(mkdtemp(path_.data()), nullptr);
  }

  void Make(const std::string& folder) {
    for (size_t slash = folder.find('/'); slash != std::string::npos; slash = folder.find('/', slash + 1))
      mkdir((path_ + "/" + folder.substr(0, slash)).c_str(), 0700);
    mkdir((path_ + "/" + folder).c_str(), 0700);
  }
  void Write(const std::string& file, const std::string& bytes) {
    Make(file.substr(0, file.rfind('/')));
    std::ofstream(path_ + "/" + file, std::ios::binary) << bytes;
  }

  FolderScan At() {
    auto scan = ScanFolder(path_);
    EXPECT_TRUE(scan.ok()) << scan.status();
    return scan.ok() ? *std::move(scan) : FolderScan();
  }
  std::vector<std::string> Skipped() {
    std::vector<std::string> names;
    for (const SkippedFiles& skipped : At().skipped) names.push_back(skipped.name);
    return names;
  }

  std::string path_;
};

TEST(Names, AreOnePlainWord) {
  for (const char* good : {"mlp", "a", "MiniLM-L6_v2.1", "7b"}) EXPECT_TRUE(IsModelName(good)) << good;
  for (const char* bad : {"", ".", "..", ".hidden", "-x", "a/b", "a b", "a\n", "\xc3\xa9"})
    EXPECT_FALSE(IsModelName(bad));
  EXPECT_TRUE(IsModelName(std::string(128, 'a')));
  EXPECT_FALSE(IsModelName(std::string(129, 'a')));
  EXPECT_EQ(ModelVersion("1"), 1u);
  EXPECT_EQ(ModelVersion("20260101"), 20260101u);
  for (const char* bad : {"", "0", "01", "-1", "+1", "1.0", "1a", " 1", "99999999999999999999"})
    EXPECT_EQ(ModelVersion(bad), 0u) << bad;
}

TEST_F(FolderTest, ModelsComeByNameAndByNumber) {
  Write("b/10/model.onnx", "1234");
  Write("b/9/model.onnx", "12");
  Write("b/9/weights.bin", "123");
  Write("a/1/model.onnx", "1");
  Write("a/notes/model.onnx", "1");
  Write("README.txt/../readme", "no model");
  const FolderScan scan = At();
  ASSERT_EQ(scan.models.size(), 3u);
  EXPECT_EQ(scan.models[0].name, "a");
  EXPECT_EQ(scan.models[1].version, 9u);
  EXPECT_EQ(scan.models[1].bytes, 5u);
  EXPECT_EQ(scan.models[2].version, 10u);
  EXPECT_EQ(scan.models[2].path, path_ + "/b/10/model.onnx");
}

TEST_F(FolderTest, WhatIsBesideAModelChangesItsIdentity) {
  Write("a/1/model.onnx", "1");
  const std::string first = At().models[0].identity;
  EXPECT_EQ(At().models[0].identity, first);
  Write("a/1/weights.bin", "1");
  const std::string second = At().models[0].identity;
  EXPECT_NE(second, first);
  Write("a/1/weights.bin", "12");
  EXPECT_NE(At().models[0].identity, second);
}

TEST_F(FolderTest, SettingsAreOfAllVersions) {
  Write("a/1/model.onnx", "1");
  Write("b/1/model.onnx", "1");
  Write("b/2/model.onnx", "1");
  const FolderScan before = At();
  EXPECT_EQ(before.models[1].config, "");
  Write("b/config.pbtxt", "123");
  const FolderScan after = At();
  EXPECT_EQ(after.models[0].identity, before.models[0].identity);
  for (const size_t of_b : {1u, 2u}) {
    EXPECT_EQ(after.models[of_b].config, path_ + "/b/config.pbtxt");
    EXPECT_EQ(after.models[of_b].bytes, 4u);
    EXPECT_NE(after.models[of_b].identity, before.models[of_b].identity);
  }
  Write("b/config.pbtxt", "1234");
  EXPECT_NE(At().models[1].identity, after.models[1].identity);
  ASSERT_EQ(symlink("/etc/passwd", (path_ + "/a/config.pbtxt").c_str()), 0);
  const FolderScan linked = At();
  ASSERT_EQ(linked.models.size(), 3u);
  EXPECT_EQ(linked.models[0].config, "");
  EXPECT_EQ(linked.models[0].refused, "config.pbtxt: no plain file; links are not followed");
  EXPECT_NE(linked.models[0].identity, before.models[0].identity);
  EXPECT_EQ(linked.models[1].refused, "");
  EXPECT_TRUE(linked.skipped.empty());
}

TEST_F(FolderTest, AGraphHasItsConstantsBesideIt) {
  Write("a/1/model.kgraph", "123");
  Write("a/1/model.safetensors", "12");
  Write("b/1/model.onnx", "1");
  FolderScan scan = At();
  ASSERT_EQ(scan.models.size(), 2u);
  EXPECT_TRUE(scan.models[0].is_graph);
  EXPECT_EQ(scan.models[0].path, path_ + "/a/1/model.kgraph");
  EXPECT_EQ(scan.models[0].bytes, 5u);
  EXPECT_EQ(scan.models[0].refused, "");
  EXPECT_FALSE(scan.models[1].is_graph);

  Write("a/1/model.onnx", "1");
  EXPECT_EQ(At().models[0].refused, "model.kgraph: model.onnx lies beside it; a version is one of them");
  ASSERT_EQ(unlink((path_ + "/a/1/model.onnx").c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", (path_ + "/a/1/model.onnx").c_str()), 0);
  EXPECT_EQ(At().models[0].refused, "model.kgraph: model.onnx lies beside it; a version is one of them");
  ASSERT_EQ(unlink((path_ + "/a/1/model.onnx").c_str()), 0);
  EXPECT_EQ(At().models[0].refused, "");

  const std::string alone = "model.safetensors: no plain file beside model.kgraph; links are not followed";
  ASSERT_EQ(unlink((path_ + "/a/1/model.safetensors").c_str()), 0);
  EXPECT_EQ(At().models[0].refused, alone);
  ASSERT_EQ(symlink((path_ + "/b/1/model.onnx").c_str(), (path_ + "/a/1/model.safetensors").c_str()), 0);
  EXPECT_EQ(At().models[0].refused, alone);
  ASSERT_EQ(unlink((path_ + "/a/1/model.kgraph").c_str()), 0);
  ASSERT_EQ(symlink((path_ + "/b/1/model.onnx").c_str(), (path_ + "/a/1/model.kgraph").c_str()), 0);
  EXPECT_EQ(At().models.size(), 1u);
  EXPECT_EQ(Skipped(), std::vector<std::string>{"a"});
}

TEST_F(FolderTest, WhatCannotBeServedIsSkipped) {
  Write("good/1/model.onnx", "1");
  Write("has space/1/model.onnx", "1");
  Write("nothing/1/other.onnx", "1");
  Make("empty");
  Make(".hidden");
  ASSERT_EQ(symlink((path_ + "/good").c_str(), (path_ + "/link").c_str()), 0);
  Make("inner");
  ASSERT_EQ(symlink((path_ + "/good/1").c_str(), (path_ + "/inner/1").c_str()), 0);
  Make("file/1");
  ASSERT_EQ(symlink("/etc/passwd", (path_ + "/file/1/model.onnx").c_str()), 0);
  EXPECT_EQ(Skipped(), (std::vector<std::string>{"empty", "file", "has space", "inner", "link", "nothing"}));
  EXPECT_EQ(At().models.size(), 1u);
}

// Descriptors for the folder, and for none in it.
TEST_F(FolderTest, WhatTheSystemDoesNotShowIsNotGone) {
  Write("a/1/model.onnx", "1");
  const int next = open("/dev/null", O_RDONLY);
  ASSERT_GE(next, 0);
  close(next);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const FolderScan scan = At();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(scan.models.size(), 0u);
  EXPECT_EQ(scan.unreadable, std::vector<std::string>{"a"});
  EXPECT_TRUE(At().unreadable.empty());
}

TEST_F(FolderTest, OneThatIsNotThereIsAnError) {
  EXPECT_EQ(ScanFolder(path_ + "/no").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kiln::server
