// One compilation, however many ask and however they write the graph down.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

class SingleFlightTest : public ServerTest {
 protected:
  uint64_t Compiles() {
    v1::ListProgramsResponse response;
    EXPECT_TRUE(Call(*stubs_->debug, &v1::DebugService::Stub::ListPrograms, v1::ListProgramsRequest(), response).ok());
    return response.compiles();
  }
};

TEST_F(SingleFlightTest, ManyFirstRequestsCompileOnce) {
  constexpr int kClients = 64;
  v1::ExecuteRequest request;
  *request.mutable_graph() = GraphOf(kAddOne);
  request.set_result_mode(v1::RESULT_INLINE);
  AddFloats(request, 0, std::vector<float>(8, 1.0f));
  std::atomic<int> ready{0};
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      ++ready;
      while (ready < kClients) std::this_thread::yield();
      const auto response = Execute(*stubs_, request);
      ASSERT_TRUE(response.ok()) << response.status();
      good += FloatsOf(response->results(0).tensor().data()) == std::vector<float>(8, 2.0f);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kClients);
  EXPECT_EQ(Compiles(), 1u);
}

TEST_F(SingleFlightTest, TwoSpellingsOfOneGraphCompileOnce) {
  // (x + y) * (x + y): once with shared nodes, once with every node repeated, in
  // another order, with tags and a node that nobody uses.
  const char* one = R"(
    0 CONST [] weakint 8
    1 PARAM : float32 [0] slot=0
    2 PARAM : float32 [0] slot=1
    3 ADD [1, 2]
    4 MUL [3, 3]
    5 TUPLE [4]
  )";
  const char* other = R"(
    0 CONST [] weakint 8
    1 CONST [] weakint 8
    2 PARAM : float32 [1] slot=1 @"right"
    3 CONST [] float32 7.0 @"unused"
    4 PARAM : float32 [0] slot=0 name="left"
    5 ADD [4, 2]
    6 PARAM : float32 [1] slot=0
    7 ADD [6, 2]
    8 MUL [5, 7]
    9 TUPLE [8]
  )";
  Stubs second(address());
  const auto a = Compile(*stubs_, GraphOf(one));
  const auto b = Compile(second, GraphOf(other));
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(a->graph_hash(), b->graph_hash());
  EXPECT_FALSE(a->from_cache());
  EXPECT_TRUE(b->from_cache());
  EXPECT_EQ(Compiles(), 1u);
}

}  // namespace
}  // namespace kiln::e2e
