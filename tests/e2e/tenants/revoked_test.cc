// Calls of who is not let in any more: they end, with why, whatever they are doing, and others do not notice.
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/e2e/long_run.h"
#include "tests/e2e/submit/submit_client.h"
#include "tests/e2e/tenants/quota_fixture.h"
#include "tests/support/endless.h"

namespace kiln::e2e {
namespace {

class RevokedTest : public QuotaTest {
 protected:
  static std::string Token(const std::string& secret, const std::string& expires = "") {
    const server::Sha256 digest = server::Sha256Of(secret);
    return absl::StrCat("token { sha256: \"",
                        absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}), "\"",
                        expires.empty() ? "" : absl::StrCat(" expires: \"", expires, "\""), " } ");
  }
  static std::string Tenant(const std::string& name, const std::string& rest) {
    return absl::StrCat("tenant { name: \"", name, "\" ", rest, " }\n");
  }
  void StartTenants(const std::string& tenants) {
    WriteFile(tenants);
    v1::ServerConfig config = server::DefaultConfig();
    config.set_tenants(path_);
    Start(config);
  }
  void Change(const std::string& tenants) {
    WriteFile(tenants);
    ASSERT_TRUE(server_->Reload().ok());
  }
  std::unique_ptr<Stubs> Of(const std::string& secret) { return std::make_unique<Stubs>(address(), secret); }

  static std::string Opened(Stubs& stubs) {
    v1::OpenSessionRequest request;
    request.set_lease_seconds(60);
    v1::OpenSessionResponse response;
    EXPECT_TRUE(Call(*stubs.session, &v1::SessionService::Stub::Open, request, response).ok());
    return response.token();
  }
};

TEST_F(RevokedTest, ATokenThatIsTakenOutEndsWhatWasBegunWithIt) {
  StartTenants(Tenant("a", Token("stolen") + Token("kept")) + Tenant("b", Token("b")));
  const auto stolen = Of("stolen"), kept = Of("kept"), b = Of("b");
  SubmitClient own(*kept), others(*b), theirs(*stolen);
  for (SubmitClient* stream : {&own, &others, &theirs}) {
    stream->Allocate(1, 8);
    stream->Write(1, "12345678");
    EXPECT_EQ(stream->ReadBack(1), "12345678");
  }
  // One of each kind: what only waits, what writes, what reads, and what computes.
  const auto watch_context = NewContext(), upload_context = NewContext(), infer_context = NewContext();
  const auto watch = stolen->device->Watch(watch_context.get(), v1::WatchDevicesRequest());
  v1::WatchDevicesResponse seen;
  ASSERT_TRUE(watch->Read(&seen));
  v1::WriteResponse written;
  const auto upload = stolen->buffer->Write(upload_context.get(), &written);
  v1::WriteRequest header;
  header.mutable_header()->mutable_buffer()->set_handle(*AllocateBytes(*stolen, 1 << 20));
  header.mutable_header()->set_bytes(1 << 20);
  ASSERT_TRUE(upload->Write(header));
  const auto models = inference::GRPCInferenceService::NewStub(stolen->channel);
  const auto infer = models->ModelStreamInfer(infer_context.get());
  inference::ModelInferRequest ask;
  ask.set_model_name("none");
  ASSERT_TRUE(infer->Write(ask));
  inference::ModelStreamInferResponse told;
  ASSERT_TRUE(infer->Read(&told));
  absl::Status computed;
  std::thread computes([&] {
    v1::ExecuteRequest request;
    *request.mutable_graph() = testing::CountsFor(30'000'000'000);
    v1::Argument& argument = *request.add_arguments();
    argument.set_slot(0);
    argument.mutable_tensor()->set_dtype(v1::INT32);
    argument.mutable_tensor()->add_shape(1);
    argument.mutable_tensor()->set_data(std::string(4, '\0'));
    computed = Execute(*stolen, request).status();
  });
  absl::SleepFor(absl::Milliseconds(300));

  const absl::Time begin = absl::Now();
  Change(Tenant("a", Token("kept")) + Tenant("b", Token("b")));
  const absl::Status end = theirs.Failure();
  EXPECT_EQ(CodeOf(end), v1::NOT_AUTHENTICATED) << end;
  EXPECT_EQ(end.message(), "the token is none of this server's");
  while (watch->Read(&seen)) {
  }
  EXPECT_EQ(CodeOf(server::FromGrpc(watch->Finish())), v1::NOT_AUTHENTICATED);
  EXPECT_EQ(CodeOf(server::FromGrpc(upload->Finish())), v1::NOT_AUTHENTICATED);
  EXPECT_FALSE(infer->Read(&told));
  EXPECT_EQ(CodeOf(server::FromGrpc(infer->Finish())), v1::NOT_AUTHENTICATED);
  computes.join();
  EXPECT_EQ(CodeOf(computed), v1::NOT_AUTHENTICATED) << computed;
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  // Who came by another token, or is another, goes on.
  for (SubmitClient* stream : {&own, &others}) {
    stream->Write(1, "87654321");
    EXPECT_EQ(stream->ReadBack(1), "87654321");
    stream->Drop();
  }
  EXPECT_TRUE(Eventually([this] { return account().used(Quota::kInFlight) == 0; }));
}

TEST_F(RevokedTest, ATokenThatExpiresEndsItsStreamsByItself) {
  const absl::Time until = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()) + 3);
  const std::string expires = absl::FormatTime(absl::RFC3339_full, until, absl::UTCTimeZone());
  StartTenants(Tenant("a", Token("short", expires) + Token("long")));
  const auto brief = Of("short"), lasting = Of("long");
  SubmitClient ends(*brief), stays(*lasting);
  ends.Allocate(1, 8);
  EXPECT_EQ(ends.ReadBack(1), std::string(8, '\0'));
  const absl::Status end = ends.Failure();
  const absl::Time now = absl::Now();
  EXPECT_EQ(CodeOf(end), v1::NOT_AUTHENTICATED) << end;
  EXPECT_NE(end.message().find("the token expired at"), absl::string_view::npos) << end;
  EXPECT_GE(now, until);
  EXPECT_LT(now - until, absl::Seconds(1));
  stays.Allocate(1, 8);
  EXPECT_EQ(stays.ReadBack(1), std::string(8, '\0'));
  stays.Drop();
}

TEST_F(RevokedTest, ARightThatIsTakenEndsWhatNeedsIt) {
  StartTenants(Tenant("a", Token("a")));
  const auto a = Of("a");
  SubmitClient stream(*a);
  stream.Allocate(1, 8);
  EXPECT_EQ(stream.ReadBack(1), std::string(8, '\0'));
  Change(Tenant("a", Token("a") + "right: DEBUG_RIGHT"));
  const absl::Status end = stream.Failure();
  EXPECT_EQ(CodeOf(end), v1::NOT_ALLOWED) << end;
  EXPECT_EQ(DetailOf(end)->field(), "execute");
}

TEST_F(RevokedTest, ASessionIsTakenUpAgainWithANewToken) {
  StartTenants(Tenant("a", Token("old")));
  const auto old = Of("old");
  const std::string session = Opened(*old);
  SubmitClient stream(*old, session);
  stream.Allocate(1, 8);
  stream.Write(1, "12345678");
  EXPECT_EQ(stream.ReadBack(1), "12345678");
  Change(Tenant("a", Token("new")));
  EXPECT_EQ(CodeOf(stream.Failure()), v1::NOT_AUTHENTICATED);
  SubmitClient refused(*old, session);
  EXPECT_EQ(CodeOf(refused.Failure()), v1::NOT_AUTHENTICATED);
  const auto fresh = Of("new");
  SubmitClient resumed(*fresh, session, /*acknowledged=*/3);
  resumed.next_id = 4;
  EXPECT_EQ(resumed.ReadBack(1), "12345678");
  resumed.Drop();
}

TEST_F(RevokedTest, AClientThatTakesNothingIsCutOff) {
  StartTenants(Tenant("a", Token("a") + Token("kept")));
  const auto a = Of("a");
  const uint64_t handle = *AllocateBytes(*a, 64 << 20);
  const auto context = NewContext();
  v1::ReadRequest request;
  request.mutable_buffer()->set_handle(handle);
  const auto download = a->buffer->Read(context.get(), request);
  EXPECT_TRUE(Eventually([this] { return account().used(Quota::kInFlight) == 1; }));
  Change(Tenant("a", Token("kept")));
  EXPECT_TRUE(Eventually([this] { return account().used(Quota::kInFlight) == 0; }));
  v1::ReadResponse piece;
  uint64_t bytes = 0;
  while (download->Read(&piece)) bytes += piece.chunk().size();
  EXPECT_LT(bytes, uint64_t{64} << 20);
  EXPECT_FALSE(download->Finish().ok());
}

TEST_F(RevokedTest, AnOperatorEndsTheSessionOfAnother) {
  StartTenants(Tenant("a", Token("a")) + Tenant("root", Token("root") + "right: EXECUTE_RIGHT right: DEBUG_RIGHT "
                                                                        "right: ADMIN_RIGHT"));
  const auto a = Of("a"), root = Of("root");
  const std::string session = Opened(*a);
  SubmitClient stream(*a, session);
  stream.Allocate(1, 8);
  EXPECT_EQ(stream.ReadBack(1), std::string(8, '\0'));
  v1::StateResponse state;
  ASSERT_TRUE(Call(*root->debug, &v1::DebugService::Stub::State, v1::StateRequest(), state).ok());
  std::string id;
  for (const auto& row : state.sessions()) {
    if (row.tenant() == "a" && !row.id().empty()) id = row.id();
  }
  ASSERT_FALSE(id.empty());
  v1::CloseSessionRequest close;
  close.set_id(id);
  v1::CloseSessionResponse closed;
  const auto call = [&](Stubs& stubs) { return Call(*stubs.session, &v1::SessionService::Stub::Close, close, closed); };
  // Not even its own: by that name it is an operator's to end.
  EXPECT_EQ(CodeOf(call(*a)), v1::NOT_ALLOWED);
  EXPECT_TRUE(call(*root).ok());
  EXPECT_EQ(CodeOf(call(*root)), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(CodeOf(stream.Failure()), v1::SESSION_EXPIRED);
  EXPECT_TRUE(AllReturns());
}

}  // namespace
}  // namespace kiln::e2e
