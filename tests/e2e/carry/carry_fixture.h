// Servers one after the other, and programs that go from one to the next: DebugService.Export and Import.
#ifndef KILN_TESTS_E2E_CARRY_CARRY_FIXTURE_H_
#define KILN_TESTS_E2E_CARRY_CARRY_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/store/disk_store.h"
#include "base/store/faulty_folder.h"
#include "kiln/v1/debug_service.pb.h"
#include "server/engine/engine.h"
#include "server/identity/tenants.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

// Of whom a file of tenants may speak.
inline std::string Tenant(const std::string& name, const std::string& rest = "") {
  const server::Sha256 digest = server::Sha256Of(absl::StrCat("secret of ", name));
  return absl::StrCat("tenant { name: \"", name, "\" token { sha256: \"",
                      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}), "\" } ",
                      rest, " }\n");
}
inline std::string Operator() { return Tenant("op", "right: ADMIN_RIGHT right: DEBUG_RIGHT right: EXECUTE_RIGHT"); }

inline v1::ErrorDetail DetailIn(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()); }

// y = x + x for float32 [8] in slot 0.
inline constexpr char kDouble[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 ADD [1, 1]
  3 TUPLE [2]
)";

class CarryTest : public ServerTest {
 protected:
  void SetUp() override {}
  ~CarryTest() override {
    server_.reset();
    for (const std::string& path : paths_) std::filesystem::remove_all(path);
  }

  // A new server with a folder of its own, and this key's seal; without a letter there is no key.
  void Begin(const std::string& key, const std::string& tenants = "", bool native = false) {
    v1::ServerConfig config = server::DefaultConfig();
    folder_ = store::testing::NewFolder();
    paths_.push_back(folder_);
    config.set_program_cache_dir(folder_);
    if (!key.empty()) config.set_program_cache_key_file(Write("key", std::string(32, key[0])));
    if (!tenants.empty()) config.set_tenants(Write("tenants", tenants));
    config.set_allow_native_code(native);
    Start(config);
  }
  std::unique_ptr<Stubs> As(const std::string& tenant) {
    return std::make_unique<Stubs>(address(), absl::StrCat("secret of ", tenant));
  }

  static std::string CompileOn(Stubs& stubs, const char* graph) {
    const auto compiled = Compile(stubs, GraphOf(graph));
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    return compiled.ok() ? compiled->graph_hash() : "";
  }

  struct Exported {
    absl::Status status;
    std::string bundle;
    uint32_t programs = 0, left_out = 0;
  };
  static Exported Export(Stubs& stubs, bool all = false) {
    const auto context = NewContext();
    v1::ExportRequest request;
    request.set_all(all);
    const auto stream = stubs.debug->Export(context.get(), request);
    Exported exported;
    v1::ExportResponse response;
    while (stream->Read(&response)) {
      EXPECT_LE(response.chunk().size(), size_t{1} << 20);
      exported.bundle += response.chunk();
      exported.programs = response.programs();
      exported.left_out = response.left_out();
    }
    exported.status = server::FromGrpc(stream->Finish());
    return exported;
  }

  // `pieces` as they are.
  static absl::StatusOr<v1::ImportResponse> ImportPieces(Stubs& stubs, const std::vector<std::string>& pieces) {
    const auto context = NewContext();
    v1::ImportResponse response;
    const auto stream = stubs.debug->Import(context.get(), &response);
    for (const std::string& piece : pieces) {
      v1::ImportRequest request;
      request.set_chunk(piece);
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    KILN_RETURN_IF_ERROR(server::FromGrpc(stream->Finish()));
    return response;
  }
  static std::vector<std::string> Cut(const std::string& bundle, size_t bytes) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < bundle.size(); at += bytes) pieces.push_back(bundle.substr(at, bytes));
    return pieces;
  }
  static absl::StatusOr<v1::ImportResponse> Import(Stubs& stubs, const std::string& bundle) {
    return ImportPieces(stubs, Cut(bundle, 1000));
  }
  static void ExpectTaken(const absl::StatusOr<v1::ImportResponse>& imported, uint32_t programs) {
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->programs(), programs);
    EXPECT_EQ(imported->unfit(), 0u);
    EXPECT_EQ(imported->first_unfit_size(), 0);
  }
  static void ExpectUnfit(const absl::StatusOr<v1::ImportResponse>& imported, const std::string& hash,
                          const std::string& field) {
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->unfit(), 1u);
    ASSERT_EQ(imported->first_unfit_size(), 1);
    EXPECT_EQ(imported->first_unfit(0).graph_hash(), hash);
    EXPECT_EQ(imported->first_unfit(0).field(), field);
  }

  // Eight ones and one, by the hash alone.
  static absl::StatusOr<v1::ExecuteResponse> Run(Stubs& stubs, const std::string& hash) {
    v1::ExecuteRequest request;
    request.set_graph_hash(hash);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, std::vector<float>(8, 1));
    return Execute(stubs, request);
  }
  static void ExpectHit(Stubs& stubs, const std::string& hash) {
    const auto response = Run(stubs, hash);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_TRUE(response->from_cache());
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 2));
  }

  uint64_t Compiles() { return server_->engine().program_stats().compiles; }
  size_t Entries(const std::string& key) {
    store::DiskStoreOptions options;
    options.key = Digest::FromBytes(std::string(32, key[0]));
    return (*store::DiskStore::Open(folder_, options))->List()->size();
  }

  // A bundle of kAddOne, sealed with the key of this letter; the server is gone then.
  std::string BundleOf(const std::string& key) {
    Begin(key);
    hash_ = CompileOn(*stubs_, kAddOne);
    const Exported exported = Export(*stubs_);
    EXPECT_TRUE(exported.status.ok()) << exported.status;
    EXPECT_EQ(exported.programs, 1u);
    return exported.bundle;
  }

  std::string folder_, hash_;

 private:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(testing::TempDir(), "/carry_", name, "_", paths_.size());
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    paths_.push_back(path);
    return path;
  }

  std::vector<std::string> paths_;
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_CARRY_CARRY_FIXTURE_H_
