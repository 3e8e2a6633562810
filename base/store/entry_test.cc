#include "base/store/entry.h"

#include <gtest/gtest.h>

#include "base/blake3.h"
#include "base/error.h"
#include "base/store/faulty_folder.h"

namespace kiln::store {
namespace {

using testing::MakeEntry;

std::string FieldOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  if (!detail.has_value() || detail->code() != v1::CORRUPT_ENTRY) return "no CORRUPT_ENTRY: " + status.ToString();
  return detail->field();
}

TEST(Entry, ComesBackAsItWas) {
  Entry entry = MakeEntry(3);
  const auto bytes = EncodeEntry(entry);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto again = DecodeEntry(*bytes);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->header.SerializeAsString(), entry.header.SerializeAsString());
  EXPECT_EQ(again->executable, entry.executable);
  EXPECT_EQ(again->graph, entry.graph);
  EXPECT_TRUE(CheckContents(*again).ok()) << CheckContents(*again);
}

TEST(Entry, TheHeadAloneSaysWhatItIs) {
  Entry entry = MakeEntry(3, 100'000);
  const std::string bytes = *EncodeEntry(entry);
  const auto header = DecodeHead(absl::string_view(bytes).substr(0, kHeadBytes), bytes.size());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->SerializeAsString(), entry.header.SerializeAsString());
  EXPECT_EQ(FieldOf(DecodeHead(bytes, bytes.size() - 1).status()), "length");
}

TEST(Entry, NoFlippedBitPasses) {
  Entry entry = MakeEntry(3, 200);
  const std::string bytes = *EncodeEntry(entry);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      ASSERT_NE(FieldOf(DecodeEntry(flipped).status()), "") << "byte " << i << ", bit " << bit;
    }
  }
}

TEST(Entry, NoOtherLengthPasses) {
  Entry entry = MakeEntry(3, 200);
  const std::string bytes = *EncodeEntry(entry);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_NE(FieldOf(DecodeEntry(bytes.substr(0, size)).status()), "") << size;
  }
  EXPECT_EQ(FieldOf(DecodeEntry(bytes + '\0').status()), "length");
  EXPECT_EQ(FieldOf(DecodeEntry(bytes + bytes).status()), "length");
}

TEST(Entry, ASealIsOfOneKey) {
  const SealKey key = Blake3Of("key"), other = Blake3Of("other");
  Entry entry = MakeEntry(3, 200);
  const std::string sealed = *EncodeEntry(entry, key), plain = *EncodeEntry(entry);
  EXPECT_TRUE(SaysItIsSealed(sealed) && !SaysItIsSealed(plain));
  const auto again = DecodeEntry(sealed, key);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->executable, entry.executable);
  EXPECT_TRUE(DecodeHead(sealed, sealed.size()).ok());
  EXPECT_EQ(FieldOf(DecodeEntry(sealed, other).status()), "seal");
  EXPECT_EQ(FieldOf(DecodeEntry(sealed).status()), "seal");
  EXPECT_EQ(FieldOf(DecodeEntry(plain, key).status()), "seal");
  // Who has no key can make a checksum, and not a seal.
  std::string forged = plain;
  forged[8] = 2;
  const std::string rest = forged.substr(0, forged.size() - 32);
  EXPECT_EQ(FieldOf(DecodeEntry(rest + std::string(Blake3Of(rest).view()), key).status()), "seal");
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string flipped = sealed;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    ASSERT_NE(FieldOf(DecodeEntry(flipped, key).status()), "") << i;
    ASSERT_FALSE(DecodeEntry(flipped, key).ok()) << i;
  }
}

TEST(Entry, EachFieldOfTheHeaderIsConfirmed) {
  const v1::StoredHeader wanted = MakeEntry(3).header;
  EXPECT_TRUE(CheckWanted(wanted, wanted).ok());
  struct Row {
    const char* field;
    void (*change)(v1::StoredHeader&);
  };
  const Row rows[] = {
      {"key", [](v1::StoredHeader& h) { h.mutable_key()->back() ^= 1; }},
      {"graph_hash", [](v1::StoredHeader& h) { h.mutable_graph_hash()->front() ^= 1; }},
      {"compiler", [](v1::StoredHeader& h) { h.set_compiler("test2"); }},
      {"options", [](v1::StoredHeader& h) { h.set_options("fast"); }},
      {"limits", [](v1::StoredHeader& h) { h.set_limits("native code"); }},
      {"target_fingerprint", [](v1::StoredHeader& h) { h.mutable_target_fingerprint()->front() ^= 1; }},
      {"target", [](v1::StoredHeader& h) { h.mutable_target()->set_kind(v1::Target::NVPTX); }},
      {"target", [](v1::StoredHeader& h) { h.mutable_target()->set_triple("aarch64-linux"); }},
      {"target.features", [](v1::StoredHeader& h) { h.mutable_target()->add_features("+avx512f"); }},
  };
  for (const Row& row : rows) {
    v1::StoredHeader found = wanted;
    row.change(found);
    EXPECT_EQ(FieldOf(CheckWanted(found, wanted)), row.field);
  }
}

TEST(Entry, AMachineWithMoreThanIsNeededWillDo) {
  const v1::StoredHeader found = MakeEntry(3).header;
  v1::StoredHeader wanted = found;
  wanted.mutable_target()->add_features("+avx512f");
  EXPECT_TRUE(CheckWanted(found, wanted).ok());
  wanted.mutable_target()->clear_features();
  EXPECT_EQ(MissingFeature(found.target(), wanted.target()), "+avx2");
}

TEST(Entry, AStrangersEntryMustAgreeWithItself) {
  const Entry good = MakeEntry(3);
  EXPECT_TRUE(CheckContents(good).ok());
  Entry entry = good;
  entry.graph = MakeEntry(4).graph;
  EXPECT_EQ(FieldOf(CheckContents(entry)), "graph_hash");
  entry.graph = "\xff\xff";
  EXPECT_EQ(FieldOf(CheckContents(entry)), "graph");
  entry = good;
  entry.executable = "\xff\xff";
  EXPECT_EQ(FieldOf(CheckContents(entry)), "executable");
  entry = good;
  entry.header.mutable_target()->clear_features();
  EXPECT_EQ(FieldOf(CheckContents(entry)), "target");
}

}  // namespace
}  // namespace kiln::store
