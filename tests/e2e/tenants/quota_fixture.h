// A server whose tenant "a" has a quota, and "b" none; and what its tests look at.
#ifndef KILN_TESTS_E2E_TENANTS_QUOTA_FIXTURE_H_
#define KILN_TESTS_E2E_TENANTS_QUOTA_FIXTURE_H_

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/account.h"
#include "server/engine/engine.h"
#include "server/engine/memory/session.h"
#include "server/identity/tenants.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

inline std::string TenantWith(const std::string& name, const std::string& quota) {
  const server::Sha256 digest = server::Sha256Of(absl::StrCat("secret of ", name));
  return absl::StrCat("tenant { name: \"", name, "\" token { sha256: \"",
                      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}),
                      "\" } quota { ", quota, " } }\n");
}

class QuotaTest : public ServerTest {
 protected:
  void SetUp() override {}

  // A server on which the tenant "a" has this quota; `programs` is its folder of programs, if it has one.
  void StartWith(const std::string& quota, const std::string& programs = "") {
    WriteTenants(quota);
    v1::ServerConfig config = server::DefaultConfig();
    config.set_tenants(path_);
    config.mutable_shared_memory()->set_max_bytes(1 << 20);
    config.set_data_folder(testing::TempDir());
    config.set_program_cache_dir(programs);
    Start(config);
    a_ = std::make_unique<Stubs>(address(), "secret of a");
    b_ = std::make_unique<Stubs>(address(), "secret of b");
  }

  void WriteTenants(const std::string& quota) { WriteFile(TenantWith("a", quota) + TenantWith("b", "")); }
  void WriteFile(const std::string& tenants) {
    std::ofstream(path_ + ".new") << tenants;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }

  Account& account() { return *server_->engine().accounts().Of("a"); }

  // Whether nothing is held any more, once what was answered has let go of it; but what is kept for later.
  bool AllReturns() {
    return Eventually([this] {
      for (size_t i = 0; i < static_cast<size_t>(Quota::kRequests); ++i) {  // from there on, all pass
        const auto quota = static_cast<Quota>(i);
        if (quota == Quota::kProgramBytes || quota == Quota::kDiskBytes) continue;
        if (account().used(quota) != 0) return false;
      }
      return true;
    });
  }

  static void ExpectExceeded(const absl::Status& status, Quota quota, uint64_t limit, uint64_t used) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::QUOTA_EXCEEDED) << status;
    EXPECT_EQ(detail.limit(), QuotaName(quota)) << status;
    EXPECT_EQ(detail.limit_value(), limit) << status;
    EXPECT_EQ(detail.used(), used) << status;
  }
  // Of what passes: by when to come again.
  static void ExpectFull(const absl::Status& status, Quota quota, uint64_t limit) {
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::QUOTA_EXCEEDED) << status;
    EXPECT_EQ(detail.limit(), QuotaName(quota)) << status;
    EXPECT_EQ(detail.limit_value(), limit) << status;
    EXPECT_GE(detail.used(), limit) << status;
    EXPECT_GT(detail.retry_after_ms(), 0u) << status;
  }

  absl::StatusOr<std::string> Open(Stubs& stubs) {
    v1::OpenSessionRequest request;
    request.set_lease_seconds(60);
    v1::OpenSessionResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs.session, &v1::SessionService::Stub::Open, request, response));
    return response.token();
  }

  absl::Status Close(Stubs& stubs, const std::string& token) {
    v1::CloseSessionRequest request;
    request.set_token(token);
    v1::CloseSessionResponse response;
    return Call(*stubs.session, &v1::SessionService::Stub::Close, request, response);
  }

  absl::StatusOr<uint64_t> AllocateUnder(Stubs& stubs, const std::string& token, uint64_t bytes) {
    const auto context = NewContext();
    context->AddMetadata(server::kSessionHeader, token);
    v1::AllocateRequest request;
    request.set_bytes(bytes);
    v1::AllocateResponse response;
    KILN_RETURN_IF_ERROR(server::FromGrpc(stubs.buffer->Allocate(context.get(), request, &response)));
    return response.buffer().handle();
  }

  // slot 0 + 1 of eight numbers by value.
  static v1::ExecuteRequest AddOne(v1::ResultMode mode) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    AddFloats(request, 0, std::vector<float>(8, 1));
    request.set_result_mode(mode);
    return request;
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/", "quota_tenants.txtpb");
  std::unique_ptr<Stubs> a_, b_;
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_TENANTS_QUOTA_FIXTURE_H_
