// Searches for schedules on a real server and a real device: values stay, nothing gets
// slower by its own measure, and what was found is kept under the same hash.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

// A product of 96 x 64 by 64 x 80, and the sums of its columns.
constexpr char kProduct[] = R"(
  0 CONST [] weakint 96
  1 CONST [] weakint 64
  2 CONST [] weakint 80
  3 STACK [0, 1]
  4 STACK [1, 2]
  5 PARAM : float32 [3] slot=0
  6 PARAM : float32 [4] slot=1
  7 CONST [] weakint 1
  8 STACK [0, 1, 7]
  9 RESHAPE [5, 8]
  10 STACK [7, 1, 2]
  11 RESHAPE [6, 10]
  12 MUL [9, 11]
  13 REDUCE [12] ADD axes=(1)
  14 STACK [0, 2]
  15 RESHAPE [13, 14]
  16 REDUCE [15] ADD axes=(0)
  17 TUPLE [15, 16]
)";

class TuneTest : public ServerTest {
 protected:
  void SetUp() override { Restart(); }
  ~TuneTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Restart(uint32_t max_width = 16) {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_program_cache_dir(folder_);
    config.mutable_beam_limits()->set_max_width(max_width);
    config.mutable_beam_limits()->set_max_budget_ms(3000);
    Start(config);
  }

  struct Answer {
    absl::Status status;
    std::vector<v1::TuneResponse::Candidate> candidates;
    v1::TuneResponse::Done done;
  };
  Answer Tune(const v1::TuneRequest& request, size_t cancel_after = ~size_t{0}) {
    Answer answer;
    const auto context = NewContext();
    const auto stream = stubs_->debug->Tune(context.get(), request);
    v1::TuneResponse response;
    while (stream->Read(&response)) {
      if (response.has_done()) {
        answer.done = response.done();
      } else {
        answer.candidates.push_back(response.candidate());
        if (answer.candidates.size() == cancel_after) context->TryCancel();
      }
    }
    answer.status = server::FromGrpc(stream->Finish());
    return answer;
  }
  v1::TuneRequest Request(uint32_t budget_ms = 1500) {
    v1::TuneRequest request;
    *request.mutable_graph() = GraphOf(kProduct);
    request.mutable_options()->set_beam(2);
    request.mutable_options()->set_beam_budget_ms(budget_ms);
    return request;
  }

  // Whole numbers, so that the order of a sum does not matter.
  std::vector<std::vector<float>> Run(const std::string& hash, const v1::CompileOptions& options = {}) {
    v1::ExecuteRequest request;
    request.set_graph_hash(hash);
    *request.mutable_options() = options;
    request.set_result_mode(v1::RESULT_INLINE);
    for (uint32_t slot : {0u, 1u}) {
      std::vector<float> values(slot == 0 ? 96 * 64 : 64 * 80);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
      AddFloats(request, slot, values);
      auto& tensor = *request.mutable_arguments(static_cast<int>(slot))->mutable_tensor();
      tensor.clear_shape();
      tensor.add_shape(slot == 0 ? 96 : 64);
      tensor.add_shape(slot == 0 ? 64 : 80);
    }
    const auto response = Execute(*stubs_, request);
    EXPECT_TRUE(response.ok()) << response.status();
    std::vector<std::vector<float>> results;
    if (response.ok()) {
      for (const auto& result : response->results()) results.push_back(FloatsOf(result.tensor().data()));
    }
    return results;
  }

  std::map<std::string, std::string> Schedules(const std::string& hash, const v1::CompileOptions& options = {}) {
    v1::ExplainRequest request;
    request.set_graph_hash(hash);
    *request.mutable_options() = options;
    request.add_stages("optimize");
    v1::ExplainResponse response;
    EXPECT_TRUE(Call(*stubs_->debug, &v1::DebugService::Stub::Explain, request, response).ok());
    std::map<std::string, std::string> schedules;
    for (const v1::Kernel& kernel : response.kernels()) schedules[kernel.symbol()] = kernel.schedule();
    return schedules;
  }
  static std::map<std::string, std::string> SchedulesOf(const v1::TuneResponse::Done& done) {
    std::map<std::string, std::string> schedules;
    for (const v1::Kernel& kernel : done.kernels()) schedules[kernel.symbol()] = kernel.schedule();
    return schedules;
  }

  uint64_t Compiles() {
    v1::ListProgramsResponse response;
    EXPECT_TRUE(Call(*stubs_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), response).ok());
    return response.compiles();
  }

  const std::string folder_ = ::testing::TempDir() + "/tune_test_programs";
};

TEST_F(TuneTest, KeepsValuesAndHash) {
  const std::string hash = Compile(*stubs_, GraphOf(kProduct))->graph_hash();
  const auto before = Run(hash);
  ASSERT_EQ(before.size(), 2u);
  const auto rules = Schedules(hash);

  v1::TuneRequest request = Request();
  request.clear_graph();
  request.set_graph_hash(hash);
  const Answer answer = Tune(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.done.graph_hash(), hash);
  EXPECT_EQ(answer.done.candidates(), answer.candidates.size());
  EXPECT_GT(answer.candidates.size(), 4u);
  EXPECT_GT(answer.done.first_micros(), 0);
  EXPECT_LE(answer.done.best_micros(), answer.done.first_micros());
  double first = 0, best = 0;
  for (const v1::TuneResponse::Times& times : answer.done.times()) {
    EXPECT_GE(times.calls(), 1u);
    first += times.calls() * times.first_micros();
    best += times.calls() * times.best_micros();
  }
  EXPECT_DOUBLE_EQ(first, answer.done.first_micros());
  EXPECT_DOUBLE_EQ(best, answer.done.best_micros());
  for (const auto& candidate : answer.candidates) {
    EXPECT_EQ(candidate.kernels(), static_cast<uint32_t>(answer.done.kernels_size()));
    EXPECT_FALSE(candidate.name().empty());
    EXPECT_EQ(candidate.micros() > 0, candidate.fault().empty()) << candidate.schedule() << ": " << candidate.fault();
  }

  EXPECT_EQ(Run(hash), before);
  EXPECT_EQ(Schedules(hash), SchedulesOf(answer.done));
  // What is kept is kept on disk.
  Restart();
  EXPECT_EQ(Run(hash), before);
  EXPECT_EQ(Schedules(hash), SchedulesOf(answer.done));
}

TEST_F(TuneTest, OthersAreServedMeanwhile) {
  const std::string hash = Compile(*stubs_, GraphOf(kAddOne))->graph_hash();
  Answer answer;
  std::thread tuning([&] { answer = Tune(Request(1000)); });
  for (int i = 0; i < 50; ++i) {
    v1::ExecuteRequest request;
    request.set_graph_hash(hash);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, std::vector<float>(8, 1.0f));
    const auto response = Execute(*stubs_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 2.0f));
  }
  tuning.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status;
}

// Two who ask at once share one search; who asks later, tomorrow too, gets what it found.
TEST_F(TuneTest, CompileWithABeamSearchesOnce) {
  v1::CompileRequest request;
  *request.mutable_graph() = GraphOf(kProduct);
  request.mutable_options()->set_beam(2);
  request.mutable_options()->set_beam_budget_ms(800);
  absl::StatusOr<v1::CompileResponse> one, two;
  std::thread other([&] { two = Compile(*stubs_, request); });
  one = Compile(*stubs_, request);
  other.join();
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  EXPECT_EQ(one->graph_hash(), Compile(*stubs_, GraphOf(kProduct))->graph_hash());
  EXPECT_EQ(Compiles(), 2u);  // with a beam, and without
  const auto found = Schedules(one->graph_hash(), request.options());
  EXPECT_EQ(Run(one->graph_hash(), request.options()), Run(one->graph_hash()));

  Restart();
  const auto again = Compile(*stubs_, request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->from_cache());
  EXPECT_EQ(Schedules(again->graph_hash(), request.options()), found);
}

TEST_F(TuneTest, EndsWhenItsClientGoesAway) {
  v1::TuneRequest request = Request(3000);
  const Answer answer = Tune(request, /*cancel_after=*/3);
  EXPECT_TRUE(absl::IsCancelled(answer.status)) << answer.status;
  // Another search is not kept waiting for what is left of that time.
  EXPECT_TRUE(Tune(Request(300)).status.ok());
}

TEST_F(TuneTest, Refusals) {
  v1::TuneRequest unknown = Request();
  unknown.clear_graph();
  unknown.set_graph_hash(std::string(32, 'x'));
  EXPECT_EQ(DetailOf(Tune(unknown).status)->code(), v1::NEED_GRAPH);
  unknown.set_graph_hash("short");
  EXPECT_EQ(DetailOf(Tune(unknown).status)->code(), v1::BAD_ARGUMENT);
  v1::TuneRequest device = Request();
  device.set_device("CPU:9");
  EXPECT_EQ(DetailOf(Tune(device).status)->code(), v1::UNKNOWN_DEVICE);
  v1::TuneRequest bad = Request();
  *bad.mutable_graph() = GraphOf("0 CONST [] weakint 1\n1 ADD [0]\n2 TUPLE [1]");
  EXPECT_EQ(DetailOf(Tune(bad).status)->node(), 1u);

  Restart(/*max_width=*/0);
  EXPECT_EQ(DetailOf(Tune(Request()).status)->code(), v1::NOT_ALLOWED);
  v1::CompileRequest compile;
  *compile.mutable_graph() = GraphOf(kProduct);
  compile.mutable_options()->set_beam(2);
  EXPECT_EQ(DetailOf(Compile(*stubs_, compile).status())->code(), v1::NOT_ALLOWED);
  EXPECT_TRUE(Compile(*stubs_, GraphOf(kProduct)).ok());
}

}  // namespace
}  // namespace kiln::e2e
