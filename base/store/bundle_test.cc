#include "base/store/bundle.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/store/bundle_pieces.h"
#include "base/store/faulty_folder.h"

namespace kiln::store {
namespace {

using testing::MakeEntry;

class BundleTest : public ::testing::Test {
 protected:
  ~BundleTest() override { std::filesystem::remove_all(folder_); }

  // A bundle of three entries.
  std::string Write() {
    BundleWriter writer(path_);
    for (int i = 0; i < 3; ++i) {
      Entry entry = MakeEntry(i, 100);
      EXPECT_TRUE(writer.Add(entry).ok());
    }
    EXPECT_FALSE(std::filesystem::exists(path_)) << "not before it is whole";
    EXPECT_TRUE(writer.Finish().ok());
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }

  struct Outcome {
    std::vector<std::string> good;  // graph hashes
    int bad = 0;
    absl::Status end;
  };
  Outcome Read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    Outcome outcome;
    auto reader = BundleReader::Open(path_);
    outcome.end = reader.status();
    while (reader.ok()) {
      auto entry = reader->Next();
      const auto detail = DetailOf(entry.status());
      if (!entry.ok() && detail.has_value() && detail->field() == "entry") {
        ++outcome.bad;
        continue;
      }
      outcome.end = entry.status();
      if (!entry.ok() || !entry->has_value()) break;
      outcome.good.push_back((*entry)->header.graph_hash());
    }
    return outcome;
  }

  const std::string folder_ = testing::NewFolder();
  const std::string path_ = folder_ + "/bundle";
};

TEST_F(BundleTest, HoldsWhatWasAdded) {
  const Outcome outcome = Read(Write());
  EXPECT_TRUE(outcome.end.ok()) << outcome.end;
  EXPECT_EQ(outcome.bad, 0);
  ASSERT_EQ(outcome.good.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome.good[i], MakeEntry(i).header.graph_hash());
}

TEST_F(BundleTest, NoChangedByteYieldsAChangedEntry) {
  const std::string bytes = Write();
  const Outcome whole = Read(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    const Outcome outcome = Read(changed);
    ASSERT_TRUE(outcome.bad > 0 || !outcome.end.ok()) << "byte " << i;
    for (const std::string& hash : outcome.good) {
      ASSERT_NE(std::find(whole.good.begin(), whole.good.end(), hash), whole.good.end());
    }
  }
}

TEST_F(BundleTest, ABundleThatIsCutIsNoBundle) {
  const std::string bytes = Write();
  for (size_t size = 0; size < bytes.size(); size += 7) EXPECT_FALSE(Read(bytes.substr(0, size)).end.ok()) << size;
  EXPECT_FALSE(Read(bytes + "x").end.ok());
}

TEST_F(BundleTest, OneBadEntryLeavesTheOthers) {
  std::string bytes = Write();
  bytes[bytes.size() / 2] ^= 1;
  const Outcome outcome = Read(bytes);
  EXPECT_TRUE(outcome.end.ok()) << outcome.end;
  EXPECT_EQ(outcome.bad, 1);
  EXPECT_EQ(outcome.good.size(), 2u);
}

TEST_F(BundleTest, WithAKeySealedEntriesAloneAreTakenUnlessOthersAreTrusted) {
  using Trust = BundleReader::Trust;
  const SealKey key = Digest{{1}}, other = Digest{{2}};
  const auto write = [&](const SealKey& with) {
    BundleWriter writer(path_, with);
    Entry entry = MakeEntry(1, 100);
    EXPECT_TRUE(writer.Add(entry).ok() && writer.Finish().ok());
  };
  const auto import = [&](const SealKey& with, Trust trust) {
    const std::string folder = testing::NewFolder();
    auto store = DiskStore::Open(folder, {.key = with});
    auto reader = BundleReader::Open(path_, with, trust);
    EXPECT_TRUE(store.ok() && reader.ok());
    const auto counts = Import(*reader, **store, [](const Entry&, const absl::Status&) {});
    // What is taken is sealed.
    const bool there = (*store)->Load(MakeEntry(1, 100).header).ok();
    EXPECT_EQ(there, counts->taken == 1);
    std::filesystem::remove_all(folder);
    return counts->refused == 0;
  };
  write(key);
  EXPECT_TRUE(import(key, Trust::kSealed));
  EXPECT_FALSE(import(other, Trust::kSealed));
  EXPECT_FALSE(import(other, Trust::kUnsealed));
  EXPECT_FALSE(import(std::nullopt, Trust::kSealed));
  write(std::nullopt);
  EXPECT_FALSE(import(key, Trust::kSealed));
  EXPECT_TRUE(import(key, Trust::kUnsealed));
  EXPECT_TRUE(import(std::nullopt, Trust::kSealed));
}

TEST_F(BundleTest, AnAbandonedOneLeavesNothing) {
  {
    BundleWriter writer(path_);
    Entry entry = MakeEntry(1);
    ASSERT_TRUE(writer.Add(entry).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_FALSE(BundleWriter(folder_ + "/none/bundle").Finish().ok());
}

TEST(WarmList, ComesBackAsItWas) {
  const std::vector<WarmProgram> programs = {
      {*GraphHash::FromHex(std::string(64, 'a')), "strict=1 disabled=simplify ranges,optimize"},
      {*GraphHash::FromHex(std::string(64, '7')), "strict=0 disabled="}};
  const auto again = ParseWarmList(PrintWarmList(programs));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, programs);
}

TEST(WarmList, NamesTheLineThatIsNone) {
  EXPECT_TRUE(ParseWarmList("")->empty());
  EXPECT_TRUE(ParseWarmList("# nothing\n\n  \n")->empty());
  const auto list = ParseWarmList(absl::StrCat(std::string(64, 'a'), "\n", std::string(63, 'a'), "\n"));
  EXPECT_TRUE(absl::StrContains(list.status().message(), "line 2")) << list.status();
}

// What a server sends and takes, cut anyhow.
struct Pieced {
  std::vector<std::string> entries;
  absl::Status end;
};
Pieced Put(const std::string& bytes, size_t cut, uint64_t max_entry_bytes = 1 << 20) {
  BundlePieces pieces(max_entry_bytes);
  Pieced put;
  for (size_t at = 0; at < bytes.size() && put.end.ok(); at += cut) {
    put.end = pieces.Add(absl::string_view(bytes).substr(at, cut), [&put](std::string entry) {
      put.entries.push_back(std::move(entry));
      return absl::OkStatus();
    });
  }
  if (put.end.ok()) put.end = pieces.Finish();
  return put;
}
std::string FieldOf(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()).field(); }

TEST_F(BundleTest, InPiecesItIsTheSame) {
  const std::string bytes = Write();
  for (const size_t cut : {size_t{1}, size_t{7}, size_t{100}, bytes.size()}) {
    const Pieced put = Put(bytes, cut);
    EXPECT_TRUE(put.end.ok()) << put.end;
    ASSERT_EQ(put.entries.size(), 3u) << cut;
    std::string again = BundleBegin();
    for (const std::string& entry : put.entries) {
      EXPECT_TRUE(DecodeEntry(entry).ok());
      absl::StrAppend(&again, EntryBegin(entry.size()), entry);
    }
    EXPECT_EQ(again + BundleEnd(), bytes);
  }
}

TEST_F(BundleTest, PiecesThatAreNoBundleAreRefused) {
  const std::string bytes = Write();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(FieldOf(Put(bytes.substr(0, size), 64).end), "bundle") << size << " bytes of it";
  EXPECT_EQ(FieldOf(Put(bytes + "x", 64).end), "bundle") << "more than all of it";
  EXPECT_EQ(FieldOf(Put("x" + bytes, 64).end), "bundle");
  std::string newer = bytes;
  newer[8] = 2;
  EXPECT_EQ(FieldOf(Put(newer, 64).end), "bundle");
  EXPECT_TRUE(Put(BundleBegin() + BundleEnd(), 64).end.ok()) << "one of nothing";
}

TEST_F(BundleTest, PiecesOfAnEntryThatIsTooLargeAreNotAwaited) {
  BundlePieces pieces(1000);
  const auto none = [](std::string) { return absl::InternalError("there is none"); };
  EXPECT_TRUE(pieces.Add(BundleBegin() + EntryBegin(1000), none).ok());
  EXPECT_EQ(pieces.entry_bytes(), 1000u);
  const Pieced put = Put(BundleBegin() + EntryBegin(1001), 64, 1000);
  const auto detail = DetailOf(put.end).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::OUT_OF_MEMORY) << put.end;
  EXPECT_EQ(detail.limit(), "entry bytes");
  EXPECT_EQ(detail.limit_value(), 1000u);
  EXPECT_EQ(detail.used(), 1001u);
}

}  // namespace
}  // namespace kiln::store
