// Graphs in a stream that are so large that another thread reads and hashes them, behind commands that they wait for.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/graph/graph_hash.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

// x + 1, with a tag of so many bytes.
v1::Graph AddOneWithTag(size_t bytes) {
  v1::Graph graph = GraphOf(kAddOne);
  graph.mutable_nodes(3)->set_tag(std::string(bytes, 't'));
  return graph;
}

using SubmitLargeTest = ServerTest;

TEST_F(SubmitLargeTest, AreWhatTheirHashSaysBehindOneThatTheyWaitFor) {
  for (const size_t bytes : {size_t{100}, size_t{40'000}}) {
    SubmitClient client(*stubs_);
    client.Allocate(1, 32);
    client.Write(1, BytesOf(std::vector<float>(8, 1.0f)));
    // Each waits until the one before has its program.
    uint64_t from = 1;
    const v1::Graph graph = AddOneWithTag(bytes);
    for (const uint64_t to : {2, 3, 4}) {
      v1::ExecuteRequest execute;
      *execute.mutable_graph() = graph;
      execute.set_graph_hash(std::string(HashGraph(graph)->Bytes()));
      AddBuffer(execute, 0, from);
      client.Execute(execute, {to});
      from = to;
    }
    EXPECT_EQ(FloatsOf(client.ReadBack(4)), std::vector<float>(8, 4.0f)) << bytes;
    // By its hash it is found.
    v1::ExecuteRequest by_hash;
    by_hash.set_graph_hash(std::string(HashGraph(graph)->Bytes()));
    AddBuffer(by_hash, 0, 4);
    client.Execute(by_hash, {5});
    EXPECT_EQ(FloatsOf(client.ReadBack(5)), std::vector<float>(8, 5.0f)) << bytes;
  }
}

TEST_F(SubmitLargeTest, ThatAreNotWhatTheirHashSaysAreRefused) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 32);
  v1::ExecuteRequest execute;
  *execute.mutable_graph() = AddOneWithTag(40'000);
  execute.set_graph_hash(std::string(HashGraph(AddOneWithTag(40'000))->Bytes()));
  execute.mutable_graph()->mutable_nodes(2)->mutable_constant()->set_f(2.0);
  AddBuffer(execute, 0, 1);
  client.Execute(execute, {2});
  EXPECT_EQ(client.FailureCode(), v1::HASH_MISMATCH);
}

TEST_F(SubmitLargeTest, ThatAreOverALimitAreRefusedByItsName) {
  v1::ServerConfig config = server::DefaultConfig();
  config.mutable_graph_limits()->set_max_nodes(4);
  Start(config);
  SubmitClient client(*stubs_);
  v1::SubmitRequest request;
  *request.mutable_compile()->mutable_graph() = AddOneWithTag(40'000);
  client.Send(request);
  const absl::Status status = client.Failure();
  EXPECT_EQ(DetailOf(status)->code(), v1::GRAPH_TOO_LARGE) << status;
  EXPECT_EQ(DetailOf(status)->limit(), "nodes");
}

}  // namespace
}  // namespace kiln::e2e
