// Random commands on a stream, on one device and on four, against a model that does one after
// the other (submit_model.h). KILN_FUZZ_FIRST and KILN_FUZZ_SEQUENCES choose other seeds.
#include "tests/e2e/submit/submit_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

constexpr char kUint8[] = R"(
  0 CONST [] weakint 8
  1 PARAM : uint8 [0] slot=0
  2 CONST [] uint8 1
  3 ADD [1, 2]
)";

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class SubmitModelTest : public ServerTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_cpu_devices(static_cast<uint32_t>(GetParam()));
    Start(config);
    add_one_ = Compiled("4 TUPLE [3]");
    update_ = Compiled("4 STORE [1, 3]\n5 AFTER [1, 4]\n6 TUPLE [5]");
    replace_ = Compiled("4 PARAM : uint8 [0] slot=1\n5 STORE [4, 3]\n6 AFTER [4, 5]\n7 TUPLE [6]");
    v1::RecordSequenceRequest request;
    request.add_programs()->set_graph_hash(update_.graph_hash());
    request.add_programs()->set_graph_hash(replace_.graph_hash());
    for (uint32_t program : {0u, 1u}) {
      v1::RecordedStep& step = *request.add_steps();
      step.set_program(program);
      for (uint32_t slot = 0; slot <= program; ++slot) {
        v1::RecordedArgument& argument = *step.add_arguments();
        argument.set_slot(slot);
        argument.mutable_memory()->set_buffer(slot);
      }
    }
    v1::RecordSequenceResponse response;
    ASSERT_TRUE(Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, request, response).ok());
    recording_ = response.recording();
  }

  v1::ExecuteRequest Compiled(const char* rest) {
    v1::ExecuteRequest request;
    request.set_graph_hash(Compile(*stubs_, GraphOf(absl::StrCat(kUint8, rest)))->graph_hash());
    return request;
  }
  static std::string DeviceName(int device) { return absl::StrCat("CPU:", device); }
  static v1::ExecuteRequest With(v1::ExecuteRequest request, const std::vector<uint64_t>& handles, int device) {
    for (uint32_t slot = 0; slot < handles.size(); ++slot) AddBuffer(request, slot, handles[slot]);
    request.set_device(DeviceName(device));
    return request;
  }

  void Check(uint64_t seed);

  v1::ExecuteRequest add_one_, update_, replace_;
  std::string recording_;
  int poisoned_ = 0, healed_ = 0;
};

void SubmitModelTest::Check(uint64_t seed) {
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  std::mt19937 random(static_cast<uint32_t>(seed));
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  // Large ones make the device's own thread work, small ones run where they arrive.
  const auto size = [&] { return below(4) == 0 ? 200'000 + below(200'000) : 1 + below(40); };
  const auto handle = [&] { return uint64_t{1} + below(24); };
  // Mostly the first, or most of what is asked of two buffers would fail.
  const auto where = [&] { return below(4) == 0 ? static_cast<int>(below(static_cast<uint32_t>(GetParam()))) : 0; };

  Model model;
  SubmitClient client(*stubs_);
  std::map<uint64_t, Expected> expected;
  std::map<uint64_t, std::string> said;
  std::map<uint64_t, v1::SubmitResponse> answers;
  std::thread reader([&] {
    while (const auto answer = client.Next()) answers[answer->command_id()] = *answer;
  });
  constexpr int kCommands = 400;
  for (int i = 0; i < kCommands; ++i) {
    const uint64_t id = client.next_id, a = handle(), b = handle();
    const uint32_t kind = below(14);
    said[id] = absl::StrCat("command ", id, " of kind ", kind, " with ", a, " and ", b);
    switch (kind) {
      case 0:
      case 1: {
        v1::SubmitRequest request;
        const size_t bytes = size();
        const int device = where();
        expected[id] = model.Allocate(id, a, bytes, device);
        request.mutable_allocate()->set_handle(a);
        request.mutable_allocate()->set_bytes(bytes);
        request.mutable_allocate()->set_device(DeviceName(device));
        client.Send(request);
        break;
      }
      case 2: {
        const size_t offset = below(8), bytes = 1 + below(20);
        expected[id] = model.View(id, a, b, offset, bytes);
        client.View(a, b, offset, bytes);
        break;
      }
      case 3: {
        const size_t offset = below(10);
        const std::string data(1 + below(12), static_cast<char>(random()));
        expected[id] = model.Write(id, a, offset, data);
        client.Write(a, data, offset);
        break;
      }
      case 4: {
        const std::string pattern(1 + below(2), static_cast<char>(random()));
        expected[id] = model.Fill(id, a, pattern);
        client.Fill(a, pattern);
        break;
      }
      case 5: {
        const size_t bytes = size();
        expected[id] = model.Copy(id, a, b, bytes);
        client.Copy(a, b, bytes);
        break;
      }
      case 6: {
        const int device = where();
        expected[id] = model.Execute(id, a, b, device);
        client.Execute(With(add_one_, {a}, device), {b});
        break;
      }
      case 7: {
        const int device = where();
        expected[id] = model.Update(id, a, device);
        client.Execute(With(update_, {a}, device), {0});
        break;
      }
      case 8: {
        const int device = where();
        expected[id] = model.Replace(id, a, b, device);
        client.Execute(With(replace_, {a, b}, device), {0});
        break;
      }
      case 11: {
        expected[id] = model.Replay(id, a, b);
        v1::SubmitRequest request;
        request.mutable_replay()->set_recording(recording_);
        request.mutable_replay()->add_handles(a);
        request.mutable_replay()->add_handles(b);
        client.Send(request);
        break;
      }
      case 9:
      case 10: {
        expected[id] = model.Read(a);
        client.Read(a);
        break;
      }
      default: {
        std::vector<uint64_t> handles = {a};
        if (below(4) == 0) handles.push_back(b);
        expected[id] = model.Free(handles);
        client.Free(handles);
        break;
      }
    }
  }
  client.WritesDone();
  reader.join();
  EXPECT_TRUE(client.Finish().ok());

  for (const auto& [id, want] : expected) {
    const auto found = answers.find(id);
    const bool fails = want.code != v1::ERROR_CODE_UNSPECIFIED;
    ASSERT_EQ(found != answers.end(), fails || want.has_data) << said[id] << " " << v1::ErrorCode_Name(want.code);
    if (found == answers.end()) continue;
    const v1::SubmitResponse& answer = found->second;
    ASSERT_EQ(answer.has_failed(), fails) << answer.ShortDebugString().substr(0, 300);
    if (!fails) {
      ASSERT_TRUE(answer.data() == want.data) << said[id];
      continue;
    }
    google::rpc::Status status;
    ASSERT_TRUE(status.ParseFromString(answer.failed().status()));
    v1::ErrorDetail detail;
    ASSERT_TRUE(detail.ParseFromString(status.details(0).value()));
    ASSERT_EQ(v1::ErrorCode_Name(detail.code()), v1::ErrorCode_Name(want.code)) << said[id] << ": " << status.message();
    ASSERT_EQ(answer.failed().cause_command_id(), want.cause) << said[id] << ": " << status.message();
  }
  poisoned_ += model.poisoned;
  healed_ += model.healed;
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
  EXPECT_TRUE(Eventually([&] { return server_->engine().buffers().count() == 0; }));
}

TEST_P(SubmitModelTest, TheStreamDoesWhatTheModelDoes) {
  const uint64_t first = FromEnvironment("KILN_FUZZ_FIRST", 0), count = FromEnvironment("KILN_FUZZ_SEQUENCES", 200);
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Check(seed);
  }
  EXPECT_GT(poisoned_, 10);
  EXPECT_GT(healed_, 10);
}

INSTANTIATE_TEST_SUITE_P(Devices, SubmitModelTest, ::testing::Values(1, 4));

}  // namespace
}  // namespace kiln::e2e
