// What another client left in device memory is not to be seen: not by a read that waits behind
// a run which fails, nor in memory that is given out anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "server/engine/engine.h"
#include "server/engine/memory/session.h"
#include "tests/e2e/long_run.h"
#include "tests/e2e/submit/submit_client.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

constexpr char kSecret = '\xa5';

// As many bytes as a result of Sines() has, and given back: the next who wants so many gets these.
void LeaveASecret(Stubs& stubs) {
  const uint64_t handle = *AllocateFloats(stubs, kLongElements);
  v1::FillRequest fill;
  fill.mutable_buffer()->set_handle(handle);
  fill.set_pattern(std::string(1, kSecret));
  v1::FillResponse filled;
  ASSERT_TRUE(Call(*stubs.buffer, &v1::BufferService::Stub::Fill, fill, filled).ok());
  ASSERT_TRUE(Free(stubs, {handle}).ok());
}

// As the server's process sees it, whoever may read it.
bool IsIn(const runtime::hal::BufferSlice& memory) {
  const absl::string_view bytes(static_cast<const char*>(memory.host_data()), memory.bytes);
  return bytes.find(std::string(64, kSecret)) != absl::string_view::npos;
}

class LeftoversTest : public ServerTest {
 protected:
  void LeaveASecret() { e2e::LeaveASecret(*stubs_); }

  struct Got {
    absl::Status status;
    int64_t bytes = 0;
    int64_t secret = 0;
  };
  Got ReadUnder(const std::string& token, uint64_t handle) {
    const auto context = NewContext();
    context->AddMetadata(server::kSessionHeader, token);
    v1::ReadRequest request;
    request.mutable_buffer()->set_handle(handle);
    const auto stream = stubs_->buffer->Read(context.get(), request);
    Got got;
    v1::ReadResponse response;
    while (stream->Read(&response)) {
      got.bytes += static_cast<int64_t>(response.chunk().size());
      got.secret += std::count(response.chunk().begin(), response.chunk().end(), kSecret);
    }
    got.status = server::FromGrpc(stream->Finish());
    return got;
  }
};

TEST_F(LeftoversTest, AReadBehindARunThatFailsSeesNothingOfThem) {
  const v1::Graph sines = Sines();
  const std::string hash = Compile(*stubs_, sines)->graph_hash();
  const uint64_t input = *AllocateFloats(*stubs_, kLongElements);
  v1::OpenSessionRequest open;
  v1::OpenSessionResponse opened;
  ASSERT_TRUE(Call(*stubs_->session, &v1::SessionService::Stub::Open, open, opened).ok());
  LeaveASecret();

  SubmitClient stream(*stubs_, opened.token());
  v1::ExecuteRequest execute;
  execute.set_graph_hash(hash);
  AddBuffer(execute, 0, input);
  stream.Execute(execute, {7});
  // The result has its memory, and is being computed.
  const auto session = *server_->engine().sessions().Find(opened.token());
  const auto& table = server_->engine().buffers().table();
  ASSERT_TRUE(Eventually([&] { return table.Find(7, session.get()).ok(); }));
  // Nor is it there, for whoever would find a way to look.
  EXPECT_FALSE(IsIn((*table.Find(7, session.get()))->slice));
  std::vector<Got> got(4);
  std::vector<std::thread> readers;
  for (Got& each : got) readers.emplace_back([&] { each = ReadUnder(opened.token(), 7); });
  const auto& device = server_->engine().devices().front();
  const auto& turns = server_->engine().turns();
  ASSERT_TRUE(Eventually([&] { return device->stats().queue_depth + turns.waiting(*device) >= 1 + got.size(); }));
  // Its end stops the run, and no read that waits behind it.
  v1::CloseSessionRequest close;
  close.set_token(opened.token());
  v1::CloseSessionResponse closed;
  ASSERT_TRUE(Call(*stubs_->session, &v1::SessionService::Stub::Close, close, closed).ok());
  for (std::thread& reader : readers) reader.join();
  for (const Got& each : got) {
    EXPECT_FALSE(each.status.ok());
    EXPECT_EQ(each.secret, 0) << "of " << each.bytes;
  }
}

class LeftoversOfTenantsTest : public QuotaTest {};

TEST_F(LeftoversOfTenantsTest, ARunThatIsStoppedFindsNothingOfAnotherTenants) {
  StartWith("");
  const std::string hash = Compile(*b_, Sines())->graph_hash();
  const std::string token = *Open(*b_);
  const auto session = *server_->engine().sessions().Find(token, "b");
  const auto& table = server_->engine().buffers().table();
  SubmitClient stream(*b_, token);
  stream.Allocate(1, 4 * kLongElements);
  ASSERT_TRUE(Eventually([&] { return table.Find(1, session.get()).ok(); }));
  LeaveASecret(*a_);
  v1::ExecuteRequest execute;
  execute.set_graph_hash(hash);
  AddBuffer(execute, 0, 1);
  stream.Execute(execute, {7});
  ASSERT_TRUE(Eventually([&] { return table.Find(7, session.get()).ok(); }));
  const runtime::hal::BufferSlice result = (*table.Find(7, session.get()))->slice;
  EXPECT_FALSE(IsIn(result));
  ASSERT_TRUE(Close(*b_, token).ok());
  // Most of it has not been written.
  EXPECT_FALSE(IsIn(result));
}

TEST_F(LeftoversTest, MemoryThatIsGivenOutAnewIsZero) {
  LeaveASecret();
  for (const uint64_t bytes : {uint64_t{4} * kLongElements, uint64_t{4} * kLongElements - 256}) {
    const uint64_t handle = *AllocateBytes(*stubs_, bytes);
    const std::string data = *Download(*stubs_, handle);
    EXPECT_EQ(data.size(), bytes);
    EXPECT_EQ(std::count(data.begin(), data.end(), '\0'), static_cast<int64_t>(bytes));
    ASSERT_TRUE(Free(*stubs_, {handle}).ok());
    LeaveASecret();
  }
}

// x[i] = s[i] for each of 1,024 elements of storage that a program of its own has, which was not written;
// or s[i] = x[i] first, which leaves x there. By hand: with work items, with a loop, and as a kernel of loops.
struct StorageRow {
  const char* name;
  const char* text;  // $0: the space; $1: which of s, x is read
};
constexpr StorageRow kStorageRows[] = {
    {"work items",
     "0 CONST [] weakint 1024\n1 PARAM : int32 [0] slot=0\n2 BUFFER : int32 [0] slot=0 space=$0\n"
     "3 SPECIAL [0] special=\"lidx0\"\n4 INDEX [$1, 3]\n5 LOAD [4]\n6 INDEX [$2, 3]\n7 STORE [6, 5]\n"
     "8 LINEAR [3, 4, 5, 6, 7]\n"},
    {"a loop",
     "0 CONST [] weakint 1024\n1 PARAM : int32 [0] slot=0\n2 BUFFER : int32 [0] slot=0 space=$0\n"
     "3 RANGE [0] range=(0) type=LOOP\n4 INDEX [$1, 3]\n5 LOAD [4]\n6 INDEX [$2, 3]\n7 STORE [6, 5]\n"
     "8 END [7, 3]\n9 LINEAR [3, 4, 5, 6, 7, 8]\n"},
    {"a kernel",
     "0 CONST [] weakint 1024\n1 PARAM : int32 [0] slot=0\n2 BUFFER : int32 [0] slot=0 space=$0\n"
     "3 RANGE [0] range=(0) type=LOOP\n4 INDEX [$1, 3]\n5 LOAD [4]\n6 INDEX [$2, 3]\n7 STORE [6, 5]\n"
     "8 END [7, 3]\n9 SINK [8]\n"},
};

TEST_F(LeftoversTest, StorageOfAProgramBeginsAsZeros) {
  const uint64_t x = *AllocateBytes(*stubs_, 4096);
  const auto run = [&](const StorageRow& row, const char* space, bool reads_storage) {
    v1::ExecuteRequest request;
    *request.mutable_graph() =
        GraphOf(absl::Substitute(row.text, space, reads_storage ? "2" : "1", reads_storage ? "1" : "2"));
    AddBuffer(request, 0, x);
    return Execute(*stubs_, request).status();
  };
  for (const StorageRow& row : kStorageRows) {
    for (const char* space : {"LOCAL", "REG"}) {
      SCOPED_TRACE(absl::StrCat(row.name, ", ", space));
      ASSERT_TRUE(Upload(*stubs_, x, std::string(4096, kSecret)).ok());
      EXPECT_EQ(run(row, space, /*reads_storage=*/false), absl::OkStatus());
      EXPECT_EQ(run(row, space, /*reads_storage=*/true), absl::OkStatus());
      EXPECT_EQ(*Download(*stubs_, x), std::string(4096, '\0'));
    }
  }
}

}  // namespace
}  // namespace kiln::e2e
