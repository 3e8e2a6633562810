// A job's graph that is lent; what crosses to a worker and back is tested by tests/hostile/compile_workers_test.cc.
#include "server/compile_worker/job.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln::server {
namespace {

TEST(LentJob, HasTheGraphAndLeavesItToItsOwner) {
  v1::Graph graph;
  for (uint32_t i = 0; i < 100; ++i) graph.add_nodes()->add_src(i);
  const std::string before = graph.SerializeAsString();
  {
    const LentJob lent(graph, {}, {}, nullptr);
    EXPECT_EQ(&lent.job().graph(), &graph);
    EXPECT_EQ(lent.job().SerializeAsString(), ToJob(graph, {}, {}, nullptr).SerializeAsString());
  }
  EXPECT_EQ(graph.SerializeAsString(), before);
}

}  // namespace
}  // namespace kiln::server
