// DebugService.Export and Import: programs that one server has compiled, in another; and what is not taken.
#include <string>
#include <vector>

#include "base/store/bundle_pieces.h"
#include "tests/e2e/carry/carry_fixture.h"

namespace kiln::e2e {
namespace {

TEST_F(CarryTest, WhatOneServerHasCompiledIsAHitInAnother) {
  Begin("k");
  const std::string one = CompileOn(*stubs_, kAddOne), other = CompileOn(*stubs_, kDouble);
  const Exported exported = Export(*stubs_);
  ASSERT_TRUE(exported.status.ok()) << exported.status;
  EXPECT_EQ(exported.programs, 2u);
  EXPECT_EQ(exported.left_out, 0u);

  for (const size_t cut : {size_t{13}, exported.bundle.size()}) {
    Begin("k");
    EXPECT_EQ(DetailIn(Run(*stubs_, one).status()).code(), v1::NEED_GRAPH);
    ExpectTaken(ImportPieces(*stubs_, Cut(exported.bundle, cut)), 2);
    ExpectHit(*stubs_, one);
    ExpectHit(*stubs_, other);
    const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
    ASSERT_TRUE(compiled.ok());
    EXPECT_TRUE(compiled->from_cache());
    EXPECT_EQ(Compiles(), 0u);
    // Once more changes nothing, and is told alike.
    const uint64_t stores = server_->engine().disk_stats()->stores;
    EXPECT_EQ(stores, 2u);
    ExpectTaken(Import(*stubs_, exported.bundle), 2);
    EXPECT_EQ(server_->engine().disk_stats()->stores, stores);
  }
  // What was imported can be exported, and evicted.
  EXPECT_EQ(Export(*stubs_).programs, 2u);
  v1::EvictRequest evict;
  evict.set_graph_hash(one);
  v1::EvictResponse evicted;
  ASSERT_TRUE(Call(*stubs_->debug, &v1::DebugService::Stub::Evict, evict, evicted).ok());
  EXPECT_EQ(evicted.entries(), 1u);
  EXPECT_EQ(Export(*stubs_).programs, 1u);
}

TEST_F(CarryTest, WhatHasNotThisKeysSealIsRefused) {
  Begin("");
  CompileOn(*stubs_, kAddOne);
  const std::string unsealed = Export(*stubs_).bundle, foreign = BundleOf("f");
  Begin("k");
  for (const std::string& bundle : {unsealed, foreign}) {
    const absl::Status refused = Import(*stubs_, bundle).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
    EXPECT_EQ(DetailIn(refused).code(), v1::CORRUPT_ENTRY) << refused;
    EXPECT_EQ(DetailIn(refused).field(), "seal") << refused;
  }
  EXPECT_EQ(Entries("k"), 0u);
  EXPECT_EQ(DetailIn(Run(*stubs_, hash_).status()).code(), v1::NEED_GRAPH);
}

TEST_F(CarryTest, ADamagedBundleIsRefused) {
  const std::string bundle = BundleOf("k");
  Begin("k");
  size_t of_length = 0;
  // Every byte of what stands before the code, and some of the rest.
  for (size_t at = 0; at + store::BundleEnd().size() < bundle.size(); at += at < 600 ? 1 : 97) {
    std::string damaged = bundle;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    const absl::Status refused = Import(*stubs_, damaged).status();
    const bool is_length = DetailIn(refused).limit() == "entry bytes";
    of_length += is_length ? 1 : 0;
    EXPECT_EQ(DetailIn(refused).code(), is_length ? v1::OUT_OF_MEMORY : v1::CORRUPT_ENTRY) << at << ": " << refused;
  }
  EXPECT_GT(of_length, 0u);
  EXPECT_EQ(Entries("k"), 0u);
  ExpectTaken(Import(*stubs_, bundle), 1);
}

TEST_F(CarryTest, ABundleThatEndsTooEarlyOrGoesOnIsRefused) {
  const std::string bundle = BundleOf("k");
  Begin("k");
  for (const size_t size : {size_t{0}, size_t{5}, size_t{12}, size_t{15}, size_t{20}, bundle.size() / 2}) {
    const absl::Status refused = Import(*stubs_, bundle.substr(0, size)).status();
    EXPECT_EQ(DetailIn(refused).code(), v1::CORRUPT_ENTRY) << refused;
    EXPECT_EQ(DetailIn(refused).field(), "bundle") << refused;
  }
  EXPECT_EQ(Entries("k"), 0u);
  // Its entries are whole, and stay.
  for (const std::string& whole : {bundle.substr(0, bundle.size() - 1), bundle + "x"}) {
    EXPECT_EQ(DetailIn(Import(*stubs_, whole).status()).field(), "bundle");
    EXPECT_EQ(Entries("k"), 1u);
  }
}

TEST_F(CarryTest, PiecesInAnotherOrderAreRefused) {
  const std::string bundle = BundleOf("k");
  Begin("k");
  const std::vector<std::string> pieces = Cut(bundle, bundle.size() / 4 + 1);
  ASSERT_EQ(pieces.size(), 4u);
  std::vector<std::string> swapped = {pieces[0], pieces[2], pieces[1], pieces[3]};
  EXPECT_EQ(DetailIn(ImportPieces(*stubs_, swapped).status()).code(), v1::CORRUPT_ENTRY);
  swapped = {pieces[1], pieces[0], pieces[2], pieces[3]};
  EXPECT_EQ(DetailIn(ImportPieces(*stubs_, swapped).status()).field(), "bundle");
  EXPECT_EQ(Entries("k"), 0u);
  ExpectTaken(ImportPieces(*stubs_, pieces), 1);
}

TEST_F(CarryTest, WhatIsTooLargeIsRefusedBeforeItComes) {
  Begin("k");
  const absl::Status entry =
      Import(*stubs_, store::BundleBegin() + store::EntryBegin(server::kMaxCarriedBytes + 1)).status();
  EXPECT_EQ(DetailIn(entry).code(), v1::OUT_OF_MEMORY) << entry;
  EXPECT_EQ(DetailIn(entry).limit(), "entry bytes");
  EXPECT_EQ(DetailIn(entry).limit_value(), server::kMaxCarriedBytes);
  EXPECT_EQ(DetailIn(entry).used(), server::kMaxCarriedBytes + 1);
  const absl::Status message = ImportPieces(*stubs_, {std::string(5 << 20, 'x')}).status();
  EXPECT_EQ(DetailIn(message).code(), v1::GRAPH_TOO_LARGE) << message;
  EXPECT_EQ(DetailIn(message).limit(), "message bytes") << message;
}

TEST_F(CarryTest, WithoutAFolderOrAKeyItIsNotServed) {
  const std::string bundle = BundleOf("");  // a folder alone has something to give
  EXPECT_FALSE(bundle.empty());
  const absl::Status keyless = Import(*stubs_, bundle).status();
  EXPECT_EQ(DetailIn(keyless).code(), v1::NOT_IMPLEMENTED) << keyless;
  EXPECT_EQ(DetailIn(keyless).field(), "DebugService.Import") << keyless;
  Start(server::DefaultConfig());
  EXPECT_EQ(DetailIn(Export(*stubs_).status).field(), "DebugService.Export");
  EXPECT_EQ(DetailIn(Import(*stubs_, bundle).status()).field(), "DebugService.Import");
}

TEST_F(CarryTest, WhatThisServerWouldNotRunIsCountedAndNamed) {
  const std::string bundle = BundleOf("k");
  Begin("k", "", /*native=*/true);
  ExpectUnfit(Import(*stubs_, bundle), hash_, "limits");
  EXPECT_EQ(Entries("k"), 0u);
  EXPECT_EQ(DetailIn(Run(*stubs_, hash_).status()).code(), v1::NEED_GRAPH);
}

}  // namespace
}  // namespace kiln::e2e
