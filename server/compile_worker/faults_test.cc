// What is kept of jobs on which the compiler failed: which are not tried again, and their graphs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/blake3.h"
#include "base/error.h"
#include "server/compile_worker/fault_folder.h"
#include "server/compile_worker/quarantine.h"

namespace kiln::server {
namespace {

v1::Graph GraphOf(const std::string& tag, uint32_t number = 0) {
  v1::Graph graph;
  v1::UOp& node = *graph.add_nodes();
  node.set_tag(tag);
  node.add_src(number);
  return graph;
}

TEST(Quarantine, ForgetsAfterAnHour) {
  Quarantine quarantine;
  const Digest job = Blake3Of("job");
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  quarantine.Note(job, now);
  EXPECT_TRUE(quarantine.Check(job, now).ok());
  quarantine.Note(job, now);
  EXPECT_FALSE(quarantine.Check(job, now + absl::Minutes(59)).ok());
  EXPECT_TRUE(quarantine.Check(Blake3Of("other"), now).ok());
  EXPECT_TRUE(quarantine.Check(job, now + absl::Minutes(61)).ok());
  EXPECT_TRUE(quarantine.Check(job, now).ok());
}

TEST(Quarantine, IsEmptyAgainAfterAnHour) {
  Quarantine quarantine;
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  EXPECT_TRUE(quarantine.Empty(now));
  quarantine.Note(Blake3Of("one"), now);
  quarantine.Note(Blake3Of("other"), now + absl::Minutes(1));
  quarantine.Note(Blake3Of("one"), now + absl::Minutes(2));
  EXPECT_FALSE(quarantine.Empty(now + absl::Minutes(61)));
  EXPECT_FALSE(quarantine.Check(Blake3Of("one"), now + absl::Minutes(61)).ok());
  EXPECT_TRUE(quarantine.Empty(now + absl::Minutes(62)));
  EXPECT_TRUE(quarantine.Check(Blake3Of("one"), now).ok());
}

TEST(Quarantine, IsBounded) {
  Quarantine quarantine;
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const Digest first = Blake3Of("0");
  for (size_t i = 0; i <= Quarantine::kMaxJobs; ++i) {
    for (int k = 0; k < Quarantine::kChances; ++k) quarantine.Note(Blake3Of(absl::StrCat(i)), now);
  }
  EXPECT_TRUE(quarantine.Check(first, now).ok());
  EXPECT_FALSE(quarantine.Check(Blake3Of("1"), now).ok());
}

TEST(FaultFolder, IsBoundedInNumberAndBytesAndLeavesOthersAlone) {
  const std::string path = absl::StrCat(testing::TempDir(), "/bounded_faults");
  std::filesystem::remove_all(path);
  const auto folder = *FaultFolder::Open(path);
  std::ofstream(path + "/notes.txt") << "the operator's";
  const auto kept = [&path] {
    size_t files = 0, bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() != ".pb") continue;
      ++files;
      bytes += entry.file_size();
    }
    return std::make_pair(files, bytes);
  };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(folder->Keep(FaultName(GraphOf("x", i)), GraphOf("x", i)).ok());
  EXPECT_EQ(kept().first, FaultFolder::kMaxFiles);
  for (int i = 0; i < 5; ++i) {
    const v1::Graph large = GraphOf(std::string(20 << 20, static_cast<char>('a' + i)));
    ASSERT_TRUE(folder->Keep(FaultName(large), large).ok());
    EXPECT_LE(kept().second, FaultFolder::kMaxBytes);
  }
  EXPECT_EQ(folder->Keep("too large", GraphOf(std::string(65 << 20, 'x'))).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(std::filesystem::exists(path + "/notes.txt"));
}

}  // namespace
}  // namespace kiln::server
