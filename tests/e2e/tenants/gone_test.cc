// A tenant that is gone from the file: nothing of it is left, for anybody.
#include <filesystem>

#include "server/engine/memory/session.h"
#include "tests/e2e/long_run.h"
#include "tests/e2e/submit/submit_client.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

class GoneTest : public QuotaTest {
 protected:
  void Change(const std::string& tenants) {
    WriteFile(tenants);
    ASSERT_TRUE(server_->Reload().ok());
  }
  static std::string A() { return TenantWith("a", ""); }
  static std::string B() { return TenantWith("b", ""); }

  // Each that is not 0, but for those of what passes.
  std::string Held() {
    std::string held;
    for (size_t i = 0; i < static_cast<size_t>(Quota::kRequests); ++i) {
      const auto quota = static_cast<Quota>(i);
      if (account().used(quota) != 0) absl::StrAppend(&held, QuotaName(quota), "=", account().used(quota), " ");
    }
    return held;
  }
  static absl::StatusOr<std::string> Record(Stubs& stubs, const std::string& graph_hash) {
    v1::RecordSequenceRequest record;
    record.add_programs()->set_graph_hash(graph_hash);
    v1::RecordedArgument& argument = *record.add_steps()->add_arguments();
    argument.set_slot(0);
    argument.mutable_memory()->set_buffer(0);
    v1::RecordSequenceResponse recorded;
    KILN_RETURN_IF_ERROR(Call(*stubs.kernel, &v1::KernelService::Stub::RecordSequence, record, recorded));
    return recorded.recording();
  }
};

TEST_F(GoneTest, AllOfItEndsAndNothingIsLeftForWhoComesUnderItsName) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/gone_programs");
  std::filesystem::remove_all(folder);
  const auto on_disk = [&folder] {
    size_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) count += file.path().extension() == ".kiln";
    return count;
  };
  StartWith("", folder);
  // Of each kind, one; b has the same.
  const auto session = Open(*a_);
  ASSERT_TRUE(session.ok()) << session.status();
  const uint64_t owned = *AllocateUnder(*a_, *session, 1000), home = *AllocateBytes(*a_, 1000);
  const uint64_t kept = *AllocateBytes(*b_, 1000);
  const auto program = Compile(*a_, GraphOf(kAddOneInPlace));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(Compile(*b_, GraphOf(kAddOneInPlace)).ok());
  const auto recording = Record(*a_, program->graph_hash());
  ASSERT_TRUE(recording.ok()) << recording.status();
  ASSERT_TRUE(Execute(*a_, AddOne(v1::RESULT_HANDLES)).ok());
  v1::MapSharedMemoryRequest map;
  map.set_bytes(4096);
  v1::MapSharedMemoryResponse mapped;
  ASSERT_TRUE(Call(*a_->buffer, &v1::BufferService::Stub::MapSharedMemory, map, mapped).ok());
  SubmitClient stream(*a_, *session), apart(*a_);
  for (SubmitClient* each : {&stream, &apart}) {
    each->Allocate(1, 8);
    each->Write(1, "12345678");
    EXPECT_EQ(each->ReadBack(1), "12345678");
  }
  const auto context = NewContext();
  const auto watch = a_->device->Watch(context.get(), v1::WatchDevicesRequest());
  v1::WatchDevicesResponse seen;
  ASSERT_TRUE(watch->Read(&seen));
  EXPECT_EQ(on_disk(), 3u);
  EXPECT_NE(Held(), "");

  // A file with a fault takes nothing away.
  WriteFile(B() + "tenant { name: \"a\" }");
  EXPECT_FALSE(server_->Reload().ok());
  EXPECT_TRUE(Download(*a_, home).ok());
  stream.Write(1, "87654321");
  EXPECT_EQ(stream.ReadBack(1), "87654321");
  // Nor does one in which it has another quota and another token beside: it is the same.
  Change(TenantWith("a", "handles: 1000") + B());
  EXPECT_TRUE(Download(*a_, home).ok());

  Change(B());
  EXPECT_EQ(CodeOf(Download(*a_, home).status()), v1::NOT_AUTHENTICATED);
  const absl::Status ended = stream.Failure();
  EXPECT_EQ(CodeOf(ended), v1::NOT_AUTHENTICATED) << ended;
  EXPECT_EQ(CodeOf(apart.Failure()), v1::NOT_AUTHENTICATED);
  while (watch->Read(&seen)) {
  }
  EXPECT_EQ(CodeOf(server::FromGrpc(watch->Finish())), v1::NOT_AUTHENTICATED);
  EXPECT_TRUE(Eventually([this] { return Held().empty(); })) << Held();
  EXPECT_EQ(on_disk(), 1u);
  EXPECT_TRUE(Download(*b_, kept).ok());
  EXPECT_TRUE(Compile(*b_, GraphOf(kAddOneInPlace))->from_cache());

  // Somebody else has its name.
  Change(A() + B());
  EXPECT_EQ(CodeOf(Download(*a_, home).status()), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(CodeOf(Download(*a_, owned).status()), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(CodeOf(AllocateUnder(*a_, *session, 8).status()), v1::UNKNOWN_HANDLE);
  SubmitClient resumed(*a_, *session);
  EXPECT_EQ(CodeOf(resumed.Failure()), v1::SESSION_EXPIRED);
  v1::ListProgramsResponse list;
  ASSERT_TRUE(Call(*a_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), list).ok());
  EXPECT_EQ(list.programs_size(), 0);
  v1::ExecuteRequest by_hash = AddOne(v1::RESULT_HANDLES);
  by_hash.clear_graph();
  by_hash.set_graph_hash(program->graph_hash());
  EXPECT_EQ(CodeOf(Execute(*a_, by_hash).status()), v1::NEED_GRAPH);
  v1::ReplaySequenceRequest replay;
  replay.set_recording(*recording);
  replay.add_handles(*AllocateFloats(*a_, 8));
  v1::ReplaySequenceResponse replayed;
  EXPECT_EQ(CodeOf(Call(*a_->kernel, &v1::KernelService::Stub::ReplaySequence, replay, replayed)), v1::NEED_GRAPH);
  v1::TraceResponse trace;
  ASSERT_TRUE(Call(*a_->debug, &v1::DebugService::Stub::Trace, v1::TraceRequest(), trace).ok());
  for (const auto& call : trace.calls()) EXPECT_NE(call.method(), "KernelService.Compile");
  EXPECT_FALSE(Compile(*a_, GraphOf(kAddOneInPlace))->from_cache());
  EXPECT_EQ(on_disk(), 2u);
  server_.reset();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kiln::e2e
