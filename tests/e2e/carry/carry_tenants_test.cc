// DebugService.Export and Import where there are tenants: whose programs go, whose they are then, and who pays.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/store/bundle_pieces.h"
#include "server/identity/tenant.h"
#include "tests/e2e/carry/carry_fixture.h"

namespace kiln::e2e {
namespace {

TEST_F(CarryTest, ATenantExportsItsOwnAndAnOperatorAll) {
  const std::string tenants = Tenant("a") + Tenant("b") + Operator();
  Begin("k", tenants);
  const std::string of_a = CompileOn(*As("a"), kAddOne), of_b = CompileOn(*As("b"), kDouble);
  const Exported own = Export(*As("a"));
  ASSERT_TRUE(own.status.ok()) << own.status;
  EXPECT_EQ(own.programs, 1u);
  EXPECT_EQ(Export(*As("op")).programs, 0u);
  const Exported all = Export(*As("op"), /*all=*/true);
  EXPECT_EQ(all.programs, 2u);
  const absl::Status refused = Export(*As("a"), /*all=*/true).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_EQ(DetailIn(refused).code(), v1::NOT_ALLOWED);
  EXPECT_EQ(DetailIn(refused).field(), server::RightName(server::Right::kAdmin));

  // Another server, with another secret: each has again what was its own, and nobody what was another's.
  Begin("k", tenants);
  const absl::Status not_allowed = Import(*As("a"), own.bundle).status();
  EXPECT_EQ(not_allowed.code(), absl::StatusCode::kPermissionDenied) << not_allowed;
  EXPECT_EQ(DetailIn(not_allowed).code(), v1::NOT_ALLOWED);
  ExpectTaken(Import(*As("op"), own.bundle), 1);
  ExpectHit(*As("a"), of_a);
  EXPECT_EQ(DetailIn(Run(*As("b"), of_a).status()).code(), v1::NEED_GRAPH);
  EXPECT_EQ(DetailIn(Run(*As("op"), of_a).status()).code(), v1::NEED_GRAPH);
  EXPECT_EQ(DetailIn(Run(*As("b"), of_b).status()).code(), v1::NEED_GRAPH) << "it was not in the bundle";
  ExpectTaken(Import(*As("op"), all.bundle), 2);
  ExpectHit(*As("b"), of_b);
  EXPECT_EQ(DetailIn(Run(*As("a"), of_b).status()).code(), v1::NEED_GRAPH);
  EXPECT_EQ(Compiles(), 0u);

  Begin("k", Tenant("a") + Operator());
  const auto imported = Import(*As("op"), all.bundle);
  ExpectUnfit(imported, of_b, "tenant");
  EXPECT_EQ(imported->programs(), 1u);
  ExpectHit(*As("a"), of_a);
}

// Of a server without tenants, what is nobody's becomes who imports it.
TEST_F(CarryTest, WhatWasNobodysIsTheImporters) {
  const std::string bundle = BundleOf("k");
  Begin("k", Tenant("a") + Operator());
  ExpectTaken(Import(*As("op"), bundle), 1);
  ExpectHit(*As("op"), hash_);
  EXPECT_EQ(DetailIn(Run(*As("a"), hash_).status()).code(), v1::NEED_GRAPH);
}

// The same answer whoever has the program already, and a program of one's own.
TEST_F(CarryTest, AnImportTellsNothingOfOtherTenants) {
  const std::string bundle = BundleOf("k");
  std::map<bool, std::string> answers;
  for (const bool there : {false, true}) {
    Begin("k", Tenant("a") + Operator());
    if (there) CompileOn(*As("a"), kAddOne);
    const auto imported = Import(*As("op"), bundle);
    ExpectTaken(imported, 1);
    answers[there] = imported->SerializeAsString();
    EXPECT_EQ(Entries("k"), there ? 2u : 1u);
  }
  EXPECT_EQ(answers[false], answers[true]);
}

TEST_F(CarryTest, AnEntryOfATenantsPartOfAFolderIsRefused) {
  Begin("k", Tenant("a") + Operator());
  CompileOn(*As("a"), kAddOne);
  std::string bundle = store::BundleBegin();
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (bytes.substr(0, 8) == "KILNPROG") absl::StrAppend(&bundle, store::EntryBegin(bytes.size()), bytes);
  }
  const absl::Status refused = Import(*As("op"), bundle + store::BundleEnd()).status();
  EXPECT_EQ(DetailIn(refused).code(), v1::CORRUPT_ENTRY) << refused;
  EXPECT_EQ(DetailIn(refused).field(), "key") << refused;
}

TEST_F(CarryTest, CodeThatIsSharedUnseenIsExportedByWhoHasSentItsGraph) {
  Begin("k", Tenant("a") + Tenant("b") + Operator() + "cache_sharing: SHARE_HIDDEN\n");
  const std::string hash = CompileOn(*As("a"), kAddOne);
  EXPECT_EQ(Export(*As("a")).programs, 1u);
  EXPECT_EQ(Export(*As("b")).programs, 0u);
  CompileOn(*As("b"), kAddOne);
  const Exported exported = Export(*As("b"));
  EXPECT_EQ(exported.programs, 1u);
  EXPECT_EQ(Compiles(), 1u) << "it was shared";
  EXPECT_EQ(Export(*As("op"), /*all=*/true).programs, 2u) << "each tenant's own";
  Begin("k", Tenant("b") + Operator());
  ExpectTaken(Import(*As("op"), exported.bundle), 1);
  ExpectHit(*As("b"), hash);
}

TEST_F(CarryTest, ItCountsAgainstTheOwnersPartOfTheDisk) {
  const std::string tenants = Tenant("a") + Operator();
  Begin("k", tenants);
  CompileOn(*As("a"), kAddOne);
  CompileOn(*As("a"), kDouble);
  const Exported both = Export(*As("a"));
  ASSERT_EQ(both.programs, 2u);
  const uint64_t bytes = server_->engine().accounts().Of("a")->used(Quota::kDiskBytes);
  ASSERT_GT(bytes, 0u);
  for (const uint64_t limit : {uint64_t{100}, bytes * 3 / 4}) {
    Begin("k", Tenant("a", absl::StrCat("quota { disk_bytes: ", limit, " }")) + Operator());
    const absl::Status refused = Import(*As("op"), both.bundle).status();
    EXPECT_EQ(DetailIn(refused).code(), v1::QUOTA_EXCEEDED) << refused;
    EXPECT_EQ(DetailIn(refused).limit(), "disk_bytes") << refused;
    EXPECT_EQ(DetailIn(refused).limit_value(), limit) << refused;
    EXPECT_EQ(Entries("k"), limit == 100 ? 0u : 1u) << "the second does not take the place of the first";
  }
  Begin("k", Tenant("a", absl::StrCat("quota { disk_bytes: ", 2 * bytes, " }")) + Operator());
  ExpectTaken(Import(*As("op"), both.bundle), 2);
  EXPECT_GT(server_->engine().accounts().Of("a")->used(Quota::kDiskBytes), bytes / 2);
  EXPECT_EQ(server_->engine().accounts().Of("op")->used(Quota::kDiskBytes), 0u);
}

// Who sends nothing takes a place until its deadline, or until it goes; and nobody all of them.
TEST_F(CarryTest, PlacesComeBack) {
  Begin("k", Tenant("a") + Operator());
  CompileOn(*As("a"), kAddOne);
  const auto op = As("op");
  Account& account = *server_->engine().accounts().Of("op");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientWriter<v1::ImportRequest>>> streams;
  std::vector<v1::ImportResponse> responses(server::CarryPlaces::kMaxOfOne);
  v1::ImportRequest begin;
  begin.set_chunk(store::BundleBegin());
  for (v1::ImportResponse& response : responses) {
    contexts.push_back(NewContext());
    streams.push_back(op->debug->Import(contexts.back().get(), &response));
    EXPECT_TRUE(streams.back()->Write(begin));
  }
  // A message and what is read of it, of each.
  const uint64_t held = 2 * responses.size() * begin.ByteSizeLong();
  ASSERT_TRUE(Eventually([&] { return account.used(Quota::kHostBytes) == held; }));
  const absl::Status refused = Import(*op, "").status();
  EXPECT_EQ(DetailIn(refused).code(), v1::OUT_OF_MEMORY) << refused;
  EXPECT_EQ(DetailIn(refused).limit(), "programs carried") << refused;
  EXPECT_EQ(DetailIn(refused).limit_value(), server::CarryPlaces::kMaxOfOne);
  EXPECT_GT(DetailIn(refused).retry_after_ms(), 0u);
  EXPECT_EQ(Export(*As("a")).programs, 1u) << "another has places of its own";
  for (size_t i = 0; i < streams.size(); ++i) {
    contexts[i]->TryCancel();
    EXPECT_EQ(streams[i]->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return Export(*op, /*all=*/true).programs == 1; }));
  EXPECT_TRUE(Eventually([&] { return account.used(Quota::kInFlight) + account.used(Quota::kHostBytes) == 0; }));

  grpc::ClientContext hasty;
  hasty.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  v1::ImportResponse response;
  const auto silent = op->debug->Import(&hasty, &response);
  EXPECT_EQ(silent->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return account.used(Quota::kInFlight) == 0; }));
}

// Whose client is there but does nothing loses it, too.
TEST_F(CarryTest, PlacesOfTheSilentComeBack) {
  Begin("k", Tenant("a") + Operator());
  server_->engine().carry_places().set_longest_silence(absl::Milliseconds(50));
  Account& account = *server_->engine().accounts().Of("op");
  const auto op = As("op");
  grpc::ClientContext context;
  v1::ImportResponse response;
  const auto silent = op->debug->Import(&context, &response);
  EXPECT_EQ(silent->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return account.used(Quota::kInFlight) + account.used(Quota::kHostBytes) == 0; }));
}

}  // namespace
}  // namespace kiln::e2e
