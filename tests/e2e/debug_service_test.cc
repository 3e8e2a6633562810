// DebugService: what people see who look inside.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

class DebugServiceTest : public ServerTest {
 protected:
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) {
    v1::ExplainResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs_->debug, &v1::DebugService::Stub::Explain, request, response));
    return response;
  }
  v1::ListProgramsResponse ListPrograms() {
    v1::ListProgramsResponse response;
    EXPECT_TRUE(Call(*stubs_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), response).ok());
    return response;
  }
};

TEST_F(DebugServiceTest, ExplainsAGraphStageByStage) {
  v1::ExplainRequest request;
  *request.mutable_graph() = GraphOf(kAddOne);
  const auto explained = Explain(request);
  ASSERT_TRUE(explained.ok()) << explained.status();
  ASSERT_GT(explained->stages_size(), 2);
  EXPECT_EQ(explained->stages(0).name().substr(0, 4), "000.");
  std::set<std::string> names;
  for (const auto& stage : explained->stages()) {
    EXPECT_FALSE(stage.text().empty()) << stage.name();
    EXPECT_TRUE(names.insert(stage.name()).second) << stage.name() << " twice";
  }
  EXPECT_EQ(explained->graph_hash(), Compile(*stubs_, GraphOf(kAddOne))->graph_hash());
  EXPECT_EQ(explained->signature().parameters_size(), 1);
  EXPECT_GT(explained->kernels_size(), 0);
}

TEST_F(DebugServiceTest, ExplainsAProgramByItsHash) {
  v1::ExplainRequest request;
  request.set_graph_hash(Compile(*stubs_, GraphOf(kAddOne))->graph_hash());
  const auto explained = Explain(request);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_GT(explained->stages_size(), 2);
}

TEST_F(DebugServiceTest, ExplainsOnlyTheStagesAskedFor) {
  v1::ExplainRequest request;
  *request.mutable_graph() = GraphOf(kAddOne);
  const std::string first = Explain(request)->stages(0).name();
  request.add_stages(first);
  const auto explained = Explain(request);
  ASSERT_TRUE(explained.ok());
  ASSERT_EQ(explained->stages_size(), 1);
  EXPECT_EQ(explained->stages(0).name(), first);
}

TEST_F(DebugServiceTest, ExplainDoesNotFillTheCache) {
  v1::ExplainRequest request;
  *request.mutable_graph() = GraphOf(kAddOne);
  ASSERT_TRUE(Explain(request).ok());
  EXPECT_EQ(ListPrograms().programs_size(), 0);
}

TEST_F(DebugServiceTest, ListsProgramsAndTheirHits) {
  const std::string hash = Compile(*stubs_, GraphOf(kAddOne))->graph_hash();
  ASSERT_TRUE(Compile(*stubs_, GraphOf(kAddOneInPlace)).ok());
  v1::ExecuteRequest execute;
  execute.set_graph_hash(hash);
  execute.set_result_mode(v1::RESULT_INLINE);
  AddFloats(execute, 0, std::vector<float>(8));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Execute(*stubs_, execute).ok());

  const v1::ListProgramsResponse list = ListPrograms();
  EXPECT_EQ(list.compiles(), 2u);
  EXPECT_EQ(list.hits(), 3u);
  ASSERT_EQ(list.programs_size(), 2);
  const v1::ListProgramsResponse::Program& latest = list.programs(0);
  EXPECT_EQ(latest.graph_hash(), hash);
  EXPECT_EQ(latest.hits(), 3u);
  EXPECT_EQ(latest.device(), "CPU:0");
  EXPECT_GT(latest.bytes(), 0u);
  EXPECT_GT(latest.kernels(), 0u);
}

// It is not run, and programs have one name whichever RPC asks for them.
TEST_F(DebugServiceTest, ADisabledPassIsLeftOut) {
  const auto with_pass = [this](const std::string& pass) {
    v1::ExplainRequest request;
    *request.mutable_graph() = GraphOf(kAddOneInPlace);
    const auto explained = Explain(request);
    EXPECT_TRUE(explained.ok()) << explained.status();
    return explained.ok() && std::any_of(explained->stages().begin(), explained->stages().end(),
                                         [&](const auto& stage) { return absl::StrContains(stage.name(), pass); });
  };
  EXPECT_TRUE(with_pass("optimize"));
  v1::ServerConfig config = server::DefaultConfig();
  config.set_disable_pass("optimize");
  Start(config);
  EXPECT_FALSE(with_pass("optimize"));
  EXPECT_TRUE(with_pass("decompose"));

  v1::RecordSequenceRequest record;
  record.add_programs()->set_graph_hash(Compile(*stubs_, GraphOf(kAddOneInPlace))->graph_hash());
  v1::RecordedArgument& argument = *record.add_steps()->add_arguments();
  argument.mutable_memory()->set_buffer(0);
  v1::RecordSequenceResponse recorded;
  const absl::Status status = Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, record, recorded);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace kiln::e2e
