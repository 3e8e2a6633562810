// Tenants: who is known, what each may do, and that another's things do not exist.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kiln/v1/debug_service.pb.h"
#include "server/engine/engine.h"
#include "server/engine/memory/session.h"
#include "server/identity/tenants.h"
#include "server/services/rpcs.h"
#include "tests/e2e/server_fixture.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

std::string Tenant(const std::string& name, const std::string& rest = "") {
  const server::Sha256 digest = server::Sha256Of(absl::StrCat("secret of ", name));
  return absl::StrCat("tenant { name: \"", name, "\" token { sha256: \"",
                      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}), "\" } ",
                      rest, " }\n");
}

class IdentityTest : public ServerTest {
 protected:
  void SetUp() override {
    WriteTenants(absl::StrCat(Tenant("a"), Tenant("b"), Tenant("runner", "right: EXECUTE_RIGHT"),
                              Tenant("watcher", "right: DEBUG_RIGHT"), Tenant("admin", "right: ADMIN_RIGHT")));
    v1::ServerConfig config = server::DefaultConfig();
    config.set_tenants(path_);
    Start(config);
    a_ = StubsOf("a");
    b_ = StubsOf("b");
  }

  void WriteTenants(const std::string& text) {
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }

  std::unique_ptr<Stubs> StubsOf(const std::string& name) {
    return std::make_unique<Stubs>(address(), absl::StrCat("secret of ", name));
  }

  static std::string MethodOf(const server::RpcRow& row) {
    return absl::StrCat("/", row.package, ".", row.service, "/", row.name);
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "/", "tenants.txtpb");
  std::unique_ptr<Stubs> a_, b_;
};

v1::ErrorCode CodeOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
}

TEST_F(IdentityTest, WhoIsNotKnownIsServedNothing) {
  for (const char* token : {"", "secret of c", "secret of a ", "Secret of a"}) {
    Stubs stranger(address(), token);
    for (const server::RpcRow& row : server::RpcRows()) {
      const absl::Status status = CallRaw(stranger, MethodOf(row).c_str(), "");
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << MethodOf(row) << " " << status;
      EXPECT_EQ(CodeOf(status), v1::NOT_AUTHENTICATED) << MethodOf(row);
    }
    // What tells a load balancer that the server lives is everybody's.
    EXPECT_EQ(Health(stranger), grpc::health::v1::HealthCheckResponse::SERVING);
  }
}

TEST_F(IdentityTest, ATenantIsServedWhatItHasTheRightTo) {
  const struct {
    const char* name;
    server::Right right;
  } tenants[] = {
      {"runner", server::Right::kExecute}, {"watcher", server::Right::kDebug}, {"admin", server::Right::kAdmin}};
  for (const auto& tenant : tenants) {
    const auto stubs = StubsOf(tenant.name);
    for (const server::RpcRow& row : server::RpcRows()) {
      if (row.name == "Submit" || row.name == "Watch") continue;  // last until the client ends them
      const absl::Status status = CallRaw(*stubs, MethodOf(row).c_str(), "");
      if (row.right != tenant.right && row.right != server::Right::kKnown) {
        EXPECT_EQ(CodeOf(status), v1::NOT_ALLOWED) << tenant.name << " " << MethodOf(row) << " " << status;
        EXPECT_EQ(DetailOf(status)->field(), server::RightName(row.right)) << status;
      } else {
        EXPECT_NE(CodeOf(status), v1::NOT_ALLOWED) << tenant.name << " " << MethodOf(row);
        EXPECT_NE(CodeOf(status), v1::NOT_AUTHENTICATED) << tenant.name << " " << MethodOf(row);
        if (!row.served) {
          EXPECT_EQ(CodeOf(status), v1::NOT_IMPLEMENTED) << MethodOf(row);
        }
      }
    }
  }
}

TEST_F(IdentityTest, BuffersOfAnotherTenantDoNotExist) {
  const uint64_t handle = *AllocateBytes(*a_, 32);
  ASSERT_TRUE(Upload(*a_, handle, std::string(32, 'a')).ok());
  // Every call of the tenant's finds it, whatever connection it comes by.
  EXPECT_EQ(*Download(*StubsOf("a"), handle), std::string(32, 'a'));

  EXPECT_EQ(CodeOf(Download(*b_, handle).status()), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(CodeOf(Upload(*b_, handle, "x")), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(CodeOf(Free(*b_, {handle})), v1::UNKNOWN_HANDLE);
  v1::DescribeBufferRequest describe;
  describe.set_handle(handle);
  v1::DescribeBufferResponse described;
  EXPECT_EQ(CodeOf(Call(*b_->buffer, &v1::BufferService::Stub::Describe, describe, described)), v1::UNKNOWN_HANDLE);
  v1::ViewRequest view;
  view.mutable_of()->set_handle(handle);
  v1::ViewResponse viewed;
  EXPECT_EQ(CodeOf(Call(*b_->buffer, &v1::BufferService::Stub::View, view, viewed)), v1::UNKNOWN_HANDLE);
  v1::CopyRequest copy;
  copy.mutable_from()->set_handle(handle);
  copy.mutable_to()->set_handle(*AllocateBytes(*b_, 32));
  copy.set_bytes(32);
  v1::CopyResponse copied;
  EXPECT_EQ(CodeOf(Call(*b_->buffer, &v1::BufferService::Stub::Copy, copy, copied)), v1::UNKNOWN_HANDLE);
  v1::ExecuteRequest execute;
  *execute.mutable_graph() = GraphOf(kAddOne);
  AddBuffer(execute, 0, handle);
  EXPECT_EQ(CodeOf(Execute(*b_, execute).status()), v1::UNKNOWN_HANDLE);
  SubmitClient stream(*b_);
  stream.Read(handle);
  EXPECT_EQ(stream.FailureCode(), v1::UNKNOWN_HANDLE);

  EXPECT_EQ(*Download(*a_, handle), std::string(32, 'a'));
  EXPECT_TRUE(Free(*a_, {handle}).ok());
}

TEST_F(IdentityTest, GuessedHandlesAreNobodys) {
  std::vector<uint64_t> handles;
  for (int i = 0; i < 64; ++i) handles.push_back(*AllocateBytes(*a_, 64));
  // Near those that are, and one bit away.
  for (const uint64_t handle : handles) {
    for (int bit = 0; bit < 64; ++bit) {
      EXPECT_EQ(CodeOf(Download(*b_, handle ^ (uint64_t{1} << bit)).status()), v1::UNKNOWN_HANDLE);
    }
    EXPECT_EQ(CodeOf(Download(*b_, handle).status()), v1::UNKNOWN_HANDLE);
  }
}

TEST_F(IdentityTest, ASessionIsItsTenants) {
  v1::OpenSessionRequest open;
  v1::OpenSessionResponse opened;
  ASSERT_TRUE(Call(*a_->session, &v1::SessionService::Stub::Open, open, opened).ok());

  v1::AllocateRequest allocate;
  allocate.set_bytes(8);
  v1::AllocateResponse allocated;
  const auto under = [&](Stubs& stubs) {
    const auto context = NewContext();
    context->AddMetadata(server::kSessionHeader, opened.token());
    return server::FromGrpc(stubs.buffer->Allocate(context.get(), allocate, &allocated));
  };
  EXPECT_TRUE(under(*a_).ok());
  EXPECT_EQ(CodeOf(under(*b_)), v1::UNKNOWN_HANDLE);
  v1::RenewSessionRequest renew;
  renew.set_token(opened.token());
  v1::RenewSessionResponse renewed;
  EXPECT_EQ(CodeOf(Call(*b_->session, &v1::SessionService::Stub::Renew, renew, renewed)), v1::UNKNOWN_HANDLE);
  v1::CloseSessionRequest close;
  close.set_token(opened.token());
  v1::CloseSessionResponse closed;
  EXPECT_EQ(CodeOf(Call(*b_->session, &v1::SessionService::Stub::Close, close, closed)), v1::UNKNOWN_HANDLE);
  open.set_resume_token(opened.token());
  v1::OpenSessionResponse other;
  ASSERT_TRUE(Call(*b_->session, &v1::SessionService::Stub::Open, open, other).ok());
  EXPECT_FALSE(other.resumed());
  EXPECT_NE(other.token(), opened.token());
  SubmitClient stolen(*b_, opened.token());
  EXPECT_EQ(CodeOf(stolen.Finish()), v1::SESSION_EXPIRED);

  EXPECT_TRUE(Call(*a_->session, &v1::SessionService::Stub::Renew, renew, renewed).ok());
  EXPECT_TRUE(Call(*a_->session, &v1::SessionService::Stub::Close, close, closed).ok());
}

TEST_F(IdentityTest, ProgramsOfAnotherTenantDoNotExist) {
  const auto first = Compile(*a_, GraphOf(kAddOne));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->from_cache());
  EXPECT_TRUE(Compile(*a_, GraphOf(kAddOne))->from_cache());

  v1::ExecuteRequest by_hash;
  by_hash.set_graph_hash(first->graph_hash());
  AddFloats(by_hash, 0, std::vector<float>(8, 1));
  EXPECT_TRUE(Execute(*a_, by_hash).ok());
  EXPECT_EQ(CodeOf(Execute(*b_, by_hash).status()), v1::NEED_GRAPH);
  v1::ExplainRequest explain;
  explain.set_graph_hash(first->graph_hash());
  v1::ExplainResponse explained;
  EXPECT_TRUE(Call(*a_->debug, &v1::DebugService::Stub::Explain, explain, explained).ok());
  EXPECT_EQ(CodeOf(Call(*b_->debug, &v1::DebugService::Stub::Explain, explain, explained)), v1::NEED_GRAPH);

  v1::ListProgramsResponse list;
  ASSERT_TRUE(Call(*b_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), list).ok());
  EXPECT_EQ(list.programs_size(), 0);
  EXPECT_EQ(list.compiles() + list.hits() + list.misses(), 0u);
  // Nor does the answer to its own compile tell of the other's.
  EXPECT_FALSE(Compile(*b_, GraphOf(kAddOne))->from_cache());
  ASSERT_TRUE(Call(*b_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), list).ok());
  EXPECT_EQ(list.programs_size(), 1);
  EXPECT_TRUE(Execute(*b_, by_hash).ok());
}

TEST_F(IdentityTest, RecordingsOfAnotherTenantDoNotExist) {
  const auto compiled = Compile(*a_, GraphOf(kAddOneInPlace));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  v1::RecordSequenceRequest record;
  record.add_programs()->set_graph_hash(compiled->graph_hash());
  v1::RecordedStep& step = *record.add_steps();
  v1::RecordedArgument& argument = *step.add_arguments();
  argument.set_slot(0);
  argument.mutable_memory()->set_buffer(0);
  v1::RecordSequenceResponse recorded;
  ASSERT_TRUE(Call(*a_->kernel, &v1::KernelService::Stub::RecordSequence, record, recorded).ok());
  EXPECT_EQ(CodeOf(Call(*b_->kernel, &v1::KernelService::Stub::RecordSequence, record, recorded)), v1::NEED_GRAPH);

  const auto replay = [&](Stubs& stubs) {
    v1::ReplaySequenceRequest request;
    request.set_recording(recorded.recording());
    request.add_handles(*AllocateFloats(stubs, 8));
    v1::ReplaySequenceResponse response;
    return Call(*stubs.kernel, &v1::KernelService::Stub::ReplaySequence, request, response);
  };
  ASSERT_TRUE(Call(*a_->kernel, &v1::KernelService::Stub::RecordSequence, record, recorded).ok());
  EXPECT_TRUE(replay(*a_).ok());
  EXPECT_EQ(CodeOf(replay(*b_)), v1::NEED_GRAPH);
  // Its own program of the same graph is another recording.
  ASSERT_TRUE(Compile(*b_, GraphOf(kAddOneInPlace)).ok());
  v1::RecordSequenceResponse own;
  ASSERT_TRUE(Call(*b_->kernel, &v1::KernelService::Stub::RecordSequence, record, own).ok());
  EXPECT_NE(own.recording(), recorded.recording());
}

TEST_F(IdentityTest, AFileThatChangesCountsForTheNextCall) {
  const uint64_t handle = *AllocateBytes(*a_, 8);
  SubmitClient stream(*a_);
  stream.Allocate(1, 8);
  stream.Write(1, "before it");
  EXPECT_EQ(stream.FailureCode(), v1::OUT_OF_BOUNDS);
  WriteTenants(absl::StrCat(Tenant("b"), "tenant { name: \"a\" }"));
  EXPECT_FALSE(server_->Reload().ok());
  EXPECT_TRUE(Download(*a_, handle).ok());
  WriteTenants(Tenant("b"));
  ASSERT_TRUE(server_->Reload().ok());
  EXPECT_EQ(CodeOf(Download(*a_, handle).status()), v1::NOT_AUTHENTICATED);
  // A stream that was let in before ends, too.
  EXPECT_EQ(CodeOf(stream.Failure()), v1::NOT_AUTHENTICATED);
  EXPECT_TRUE(AllocateBytes(*b_, 8).ok());
  // Who comes under its name has nothing of what it had.
  WriteTenants(Tenant("a"));
  ASSERT_TRUE(server_->Reload().ok());
  EXPECT_EQ(CodeOf(Download(*a_, handle).status()), v1::UNKNOWN_HANDLE);
}

TEST_F(IdentityTest, ATenantSeesItsOwnUseAndOthersTheirs) {
  WriteTenants(absl::StrCat(Tenant("a",
                                   "quota { device_bytes: 1000 requests_per_second: 50 } "
                                   "device: \"CPU:*\" guaranteed_device_bytes: 600"),
                            Tenant("watcher", "right: DEBUG_RIGHT"), Tenant("admin", "right: ADMIN_RIGHT")));
  ASSERT_TRUE(server_->Reload().ok());
  ASSERT_TRUE(AllocateBytes(*a_, 640).ok());
  const auto usage = [](Stubs& stubs, bool all) -> absl::StatusOr<v1::UsageResponse> {
    v1::UsageRequest request;
    request.set_all_tenants(all);
    v1::UsageResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs.session, &v1::SessionService::Stub::Usage, request, response));
    return response;
  };
  const auto own = usage(*a_, false);
  ASSERT_TRUE(own.ok()) << own.status();
  ASSERT_EQ(own->tenants_size(), 1);
  const v1::UsageResponse::TenantUse& a = own->tenants(0);
  EXPECT_EQ(a.name(), "a");
  ASSERT_EQ(a.quotas_size(), static_cast<int>(kQuotas));
  const auto& bytes = a.quotas(static_cast<int>(Quota::kDeviceBytes));
  EXPECT_EQ(bytes.name(), "device_bytes");
  EXPECT_EQ(bytes.limit(), 1000u);
  EXPECT_EQ(bytes.used(), 640u);
  EXPECT_EQ(bytes.window_seconds(), 0u);
  const auto& requests = a.quotas(static_cast<int>(Quota::kRequests));
  EXPECT_EQ(requests.limit(), 50u);
  EXPECT_EQ(requests.window_seconds(), 1u);
  EXPECT_GT(requests.used(), 0u);
  ASSERT_EQ(a.devices_size(), 1);
  EXPECT_EQ(a.devices(0).name(), "CPU:0");
  EXPECT_EQ(a.devices(0).guaranteed_bytes(), 600u);
  EXPECT_EQ(a.devices(0).used_bytes(), 640u);

  // Whatever rights it has, one that is known is told of itself; and of others, who administers.
  const auto other = StubsOf("watcher");
  const auto watcher = usage(*other, false);
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  EXPECT_EQ(watcher->tenants(0).name(), "watcher");
  for (Stubs* stubs : {a_.get(), other.get()}) {
    const absl::Status refused = usage(*stubs, true).status();
    EXPECT_EQ(CodeOf(refused), v1::NOT_ALLOWED) << refused;
    EXPECT_EQ(DetailOf(refused)->field(), "admin");
  }
  const auto all = usage(*StubsOf("admin"), true);
  ASSERT_TRUE(all.ok()) << all.status();
  std::string names;
  for (const auto& tenant : all->tenants()) absl::StrAppend(&names, tenant.name(), " ");
  EXPECT_EQ(names, "a admin b runner watcher ") << "also those that are gone from the file";
  EXPECT_EQ(CodeOf(usage(*b_, false).status()), v1::NOT_AUTHENTICATED);
}

TEST_F(IdentityTest, ADeviceThatIsNotItsDoesNotExist) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_tenants(path_);
  config.set_cpu_devices(3);
  WriteTenants(absl::StrCat(Tenant("a", "device: \"CPU:1\" device: \"CPU:2\""), Tenant("b")));
  Start(config);
  a_ = StubsOf("a");
  b_ = StubsOf("b");
  const auto names_of = [](Stubs& stubs) {
    v1::ListDevicesResponse list;
    EXPECT_TRUE(Call(*stubs.device, &v1::DeviceService::Stub::List, v1::ListDevicesRequest(), list).ok());
    std::string names;
    for (const v1::Device& device : list.devices()) absl::StrAppend(&names, device.name(), " ");
    return names;
  };
  EXPECT_EQ(names_of(*a_), "CPU:1 CPU:2 ");
  EXPECT_EQ(names_of(*b_), "CPU:0 CPU:1 CPU:2 ");
  const auto context = NewContext();
  const auto watch = a_->device->Watch(context.get(), v1::WatchDevicesRequest());
  v1::WatchDevicesResponse seen;
  for (const char* name : {"CPU:1", "CPU:2"}) {
    ASSERT_TRUE(watch->Read(&seen));
    EXPECT_EQ(seen.device().name(), name);
  }
  context->TryCancel();
  EXPECT_FALSE(watch->Finish().ok());

  for (const char* device : {"CPU:0", "CPU:9"}) {
    v1::DescribeDeviceRequest describe;
    describe.set_name(device);
    v1::DescribeDeviceResponse described;
    EXPECT_EQ(CodeOf(Call(*a_->device, &v1::DeviceService::Stub::Describe, describe, described)), v1::UNKNOWN_DEVICE);
    v1::CompileRequest compile;
    *compile.mutable_graph() = GraphOf(kAddOne);
    compile.set_device(device);
    EXPECT_EQ(CodeOf(Compile(*a_, compile).status()), v1::UNKNOWN_DEVICE);
    v1::AllocateRequest allocate;
    allocate.set_device(device);
    allocate.set_bytes(8);
    EXPECT_EQ(CodeOf(Allocate(*a_, allocate).status()), v1::UNKNOWN_DEVICE);
  }
  // Where a request names none, it is the tenant's first.
  EXPECT_EQ(Allocate(*a_,
                     [] {
                       v1::AllocateRequest allocate;
                       allocate.set_bytes(8);
                       return allocate;
                     }())
                ->device(),
            "CPU:1");
}

TEST_F(IdentityTest, MetadataThatIsNoTokenIsRefused) {
  const auto with = [&](const std::vector<std::string>& values) {
    const auto context = NewContext();
    for (const std::string& value : values) context->AddMetadata("authorization", value);
    v1::ListDevicesResponse response;
    return server::FromGrpc(stubs_->device->List(context.get(), v1::ListDevicesRequest(), &response));
  };
  EXPECT_TRUE(with({"Bearer secret of a"}).ok());
  for (const char* value : {"", "Bearer", "Bearer ", "Basic c2VjcmV0", "secret of a", "Bearer  secret of a"}) {
    EXPECT_EQ(CodeOf(with({value})), v1::NOT_AUTHENTICATED) << value;
  }
  EXPECT_EQ(CodeOf(with({absl::StrCat("Bearer ", std::string(6000, 'x'))})), v1::NOT_AUTHENTICATED);
  EXPECT_EQ(CodeOf(with({absl::StrCat("Bearer ", std::string(2000, '.'))})), v1::NOT_AUTHENTICATED);
}

TEST_F(IdentityTest, AFileThatIsWrongStartsNoServer) {
  v1::ServerConfig config = server::DefaultConfig();
  WriteTenants("tenant { name: \"a\" }");
  config.set_tenants(path_);
  const absl::Status status = StartStatus(config);
  EXPECT_EQ(DetailOf(status)->field(), "tenants") << status;
}

}  // namespace
}  // namespace kiln::e2e
