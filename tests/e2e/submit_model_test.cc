// Random commands on a stream, against a model that does one after the other: which
// handles there are, what memory holds, what is poisoned and by whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/submit_client.h"

namespace kiln::e2e {
namespace {

constexpr char kUint8[] = R"(
  0 CONST [] weakint 8
  1 PARAM : uint8 [0] slot=0
  2 CONST [] uint8 1
  3 ADD [1, 2]
)";

struct Memory {
  std::string bytes;
  uint64_t cause = 0;
  v1::ErrorCode code = v1::ERROR_CODE_UNSPECIFIED;
};

// A handle's part of a memory; `made` is false for what a failed command left.
struct Named {
  std::shared_ptr<Memory> memory;
  size_t offset = 0, bytes = 0;
  bool made = true;
};

// What one command is answered, if it is.
struct Expected {
  v1::ErrorCode code = v1::ERROR_CODE_UNSPECIFIED;
  uint64_t cause = 0;
  bool has_data = false;
  std::string data;
};

// The model: each function is a command, and says how it ends.
class Model {
 public:
  Expected Allocate(uint64_t id, uint64_t handle, size_t bytes) {
    if (names_.count(handle) != 0) return {v1::HANDLE_TAKEN};
    names_[handle] = {std::make_shared<Memory>(Memory{std::string(bytes, '\0')}), 0, bytes};
    return {};
  }
  Expected View(uint64_t id, uint64_t handle, uint64_t of, size_t offset, size_t bytes) {
    const bool taken = names_.count(handle) != 0;
    Expected end = Check(of, offset, bytes);
    if (taken && end.cause == 0) return {v1::HANDLE_TAKEN};
    if (taken) return end;
    if (end.code != v1::ERROR_CODE_UNSPECIFIED) return Stillborn(id, handle, end);
    names_[handle] = {names_[of].memory, names_[of].offset + offset, bytes};
    return {};
  }
  Expected Write(uint64_t id, uint64_t handle, size_t offset, const std::string& data) {
    const Expected end = Check(handle, offset, data.size());
    if (end.code != v1::ERROR_CODE_UNSPECIFIED) return Spoil(id, handle, end);
    std::memcpy(At(handle) + offset, data.data(), data.size());
    return {};
  }
  Expected Fill(uint64_t id, uint64_t handle, const std::string& pattern) {
    Expected end = Check(handle, 0, 0);
    if (end.code == v1::ERROR_CODE_UNSPECIFIED && names_[handle].bytes % pattern.size() != 0) end = {v1::BAD_ARGUMENT};
    if (end.code != v1::ERROR_CODE_UNSPECIFIED) return Spoil(id, handle, end);
    for (size_t i = 0; i < names_[handle].bytes; ++i) At(handle)[i] = pattern[i % pattern.size()];
    return {};
  }
  Expected Copy(uint64_t id, uint64_t from, uint64_t to, size_t bytes) {
    const Expected first = Check(from, 0, bytes), second = Check(to, 0, bytes);
    Expected end = first;
    if (second.cause != 0 && (first.cause == 0 || second.cause < first.cause)) end = second;
    if (end.code == v1::ERROR_CODE_UNSPECIFIED) end = second;
    if (end.code != v1::ERROR_CODE_UNSPECIFIED) return Spoil(id, to, end);
    std::memmove(At(to), At(from), bytes);
    return {};
  }
  Expected Execute(uint64_t id, uint64_t handle, uint64_t result) {
    const bool taken = names_.count(result) != 0;
    Expected end = Check(handle, 0, 0);
    if (end.code == v1::ERROR_CODE_UNSPECIFIED && names_[handle].bytes < 8) end = {v1::BUFFER_SIZE_MISMATCH};
    if (taken && end.cause == 0) return {v1::HANDLE_TAKEN};
    if (taken) return end;
    if (end.code != v1::ERROR_CODE_UNSPECIFIED) return Stillborn(id, result, end);
    names_[result] = {std::make_shared<Memory>(Memory{std::string(At(handle), 8)}), 0, 8};
    for (char& byte : names_[result].memory->bytes) ++byte;
    return {};
  }
  Expected Update(uint64_t id, uint64_t handle) {
    Expected end = Check(handle, 0, 0);
    if (end.code == v1::ERROR_CODE_UNSPECIFIED && names_[handle].bytes < 8) end = {v1::BUFFER_SIZE_MISMATCH};
    if (end.code != v1::ERROR_CODE_UNSPECIFIED) return Spoil(id, handle, end);
    for (int i = 0; i < 8; ++i) ++At(handle)[i];
    return {};
  }
  Expected Read(uint64_t handle) {
    Expected end = Check(handle, 0, 0);
    if (end.code != v1::ERROR_CODE_UNSPECIFIED) return end;
    end.has_data = true;
    end.data.assign(At(handle), names_[handle].bytes);
    return end;
  }
  Expected Free(const std::vector<uint64_t>& handles) {
    std::set<uint64_t> distinct;
    bool unknown = false;
    for (const uint64_t handle : handles) {
      if (!distinct.insert(handle).second) return {v1::UNKNOWN_HANDLE};
      if (names_.count(handle) != 0) continue;
      if (freed_.count(handle) != 0) return {v1::HANDLE_FREED};
      unknown = true;
    }
    if (unknown) return {v1::UNKNOWN_HANDLE};
    for (const uint64_t handle : handles) {
      names_.erase(handle);
      freed_.insert(handle);
    }
    return {};
  }

 private:
  char* At(uint64_t handle) { return names_[handle].memory->bytes.data() + names_[handle].offset; }

  Expected Check(uint64_t handle, size_t offset, size_t bytes) {
    const auto named = names_.find(handle);
    if (named == names_.end()) return {freed_.count(handle) != 0 ? v1::HANDLE_FREED : v1::UNKNOWN_HANDLE};
    const Memory& memory = *named->second.memory;
    if (memory.cause != 0) return {memory.code, memory.cause};
    return {offset + bytes <= named->second.bytes ? v1::ERROR_CODE_UNSPECIFIED : v1::OUT_OF_BOUNDS};
  }
  Expected Stillborn(uint64_t id, uint64_t handle, const Expected& end) {
    names_[handle] = {std::make_shared<Memory>(), 0, 0, false};
    return Spoil(id, handle, end);
  }
  Expected Spoil(uint64_t id, uint64_t handle, const Expected& end) {
    const auto named = names_.find(handle);
    if (named != names_.end() && named->second.memory->cause == 0) {
      named->second.memory->cause = end.cause == 0 ? id : end.cause;
      named->second.memory->code = end.code;
    }
    return end;
  }

  std::map<uint64_t, Named> names_;
  std::set<uint64_t> freed_;
};

class SubmitModelTest : public ServerTest, public ::testing::WithParamInterface<int> {
 protected:
  v1::ExecuteRequest Compiled(const char* rest) {
    v1::ExecuteRequest request;
    request.set_graph_hash(Compile(*stubs_, GraphOf(absl::StrCat(kUint8, rest)))->graph_hash());
    return request;
  }
  static v1::ExecuteRequest With(v1::ExecuteRequest request, uint64_t handle) {
    AddBuffer(request, 0, handle);
    return request;
  }
};

TEST_P(SubmitModelTest, TheStreamDoesWhatTheModelDoes) {
  const v1::ExecuteRequest add_one = Compiled("4 TUPLE [3]");
  const v1::ExecuteRequest update = Compiled("4 STORE [1, 3]\n5 AFTER [1, 4]\n6 TUPLE [5]");
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  std::mt19937 random(GetParam());
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  // Large ones make the device's own thread work, small ones run where they arrive.
  const auto size = [&] { return below(4) == 0 ? 200'000 + below(200'000) : 1 + below(40); };
  const auto handle = [&] { return uint64_t{1} + below(24); };

  Model model;
  SubmitClient client(*stubs_);
  std::map<uint64_t, Expected> expected;
  std::map<uint64_t, v1::SubmitResponse> answers;
  std::thread reader([&] {
    while (const auto answer = client.Next()) answers[answer->command_id()] = *answer;
  });
  constexpr int kCommands = 600;
  for (int i = 0; i < kCommands; ++i) {
    const uint64_t id = client.next_id, a = handle(), b = handle();
    switch (below(12)) {
      case 0:
      case 1: {
        const size_t bytes = size();
        expected[id] = model.Allocate(id, a, bytes);
        client.Allocate(a, bytes);
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
        expected[id] = model.Execute(id, a, b);
        client.Execute(With(add_one, a), {b});
        break;
      }
      case 7: {
        expected[id] = model.Update(id, a);
        client.Execute(With(update, a), {0});
        break;
      }
      case 8:
      case 9: {
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
    ASSERT_EQ(found != answers.end(), fails || want.has_data)
        << "command " << id << " " << v1::ErrorCode_Name(want.code);
    if (found == answers.end()) continue;
    const v1::SubmitResponse& answer = found->second;
    ASSERT_EQ(answer.has_failed(), fails) << answer.ShortDebugString().substr(0, 300);
    if (!fails) {
      ASSERT_TRUE(answer.data() == want.data) << "command " << id;
      continue;
    }
    google::rpc::Status status;
    ASSERT_TRUE(status.ParseFromString(answer.failed().status()));
    v1::ErrorDetail detail;
    ASSERT_TRUE(detail.ParseFromString(status.details(0).value()));
    ASSERT_EQ(v1::ErrorCode_Name(detail.code()), v1::ErrorCode_Name(want.code))
        << "command " << id << ": " << status.message();
    ASSERT_EQ(answer.failed().cause_command_id(), want.cause) << "command " << id << ": " << status.message();
  }
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
  EXPECT_TRUE(Eventually([&] { return server_->engine().buffers().count() == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SubmitModelTest, ::testing::Range(0, 12));

}  // namespace
}  // namespace kiln::e2e
