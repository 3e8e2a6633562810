// Everything a client can get wrong, one row each: the exact status code, the
// exact error code, the node, slot or handle named. After each row the server
// still serves, and its memory is what it was.
#ifndef KILN_TESTS_E2E_BAD_INPUT_BAD_INPUT_H_
#define KILN_TESTS_E2E_BAD_INPUT_BAD_INPUT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

// What a server of these tests takes at most.
inline constexpr uint32_t kMaxNodes = 500;
inline constexpr uint32_t kMaxBytes = 64 << 10;
inline constexpr uint32_t kMaxDepth = 100;

struct Row {
  std::string name;
  std::function<absl::Status(Stubs&)> call;
  absl::StatusCode status;
  v1::ErrorCode code;
  // What the detail must name, where it must name anything.
  std::optional<uint32_t> node;
  std::optional<uint32_t> slot;
  uint64_t handle = 0;
  std::string limit;
};

class BadInputTest : public ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.mutable_graph_limits()->set_max_nodes(kMaxNodes);
    config.mutable_graph_limits()->set_max_bytes(kMaxBytes);
    config.mutable_graph_limits()->set_max_depth(kMaxDepth);
    Start(config);
  }

  void CheckHealthy(const std::string& after) {
    EXPECT_EQ(Health(*stubs_), grpc::health::v1::HealthCheckResponse::SERVING) << after;
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    request.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request, 0, std::vector<float>(8, 1.0f));
    const auto response = Execute(*stubs_, request);
    ASSERT_TRUE(response.ok()) << after << ": " << response.status();
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 2.0f)) << after;
  }

  void Check(const std::vector<Row>& rows) {
    const uint64_t in_use = FirstDevice(*stubs_).memory_in_use_bytes();
    CheckHealthy("the start");
    for (const Row& row : rows) {
      const absl::Status status = row.call(*stubs_);
      EXPECT_EQ(status.code(), row.status) << row.name << ": " << status;
      const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
      EXPECT_EQ(v1::ErrorCode_Name(detail.code()), v1::ErrorCode_Name(row.code)) << row.name << ": " << status;
      EXPECT_FALSE(status.message().empty()) << row.name;
      if (row.node.has_value()) {
        EXPECT_TRUE(detail.has_node()) << row.name << ": " << status;
        EXPECT_EQ(detail.node(), *row.node) << row.name << ": " << status;
      }
      if (row.slot.has_value()) {
        EXPECT_EQ(detail.slot(), *row.slot) << row.name << ": " << status;
      }
      if (row.handle != 0) {
        EXPECT_EQ(detail.handle(), row.handle) << row.name << ": " << status;
      }
      if (!row.limit.empty()) {
        EXPECT_EQ(detail.limit(), row.limit) << row.name << ": " << status;
        EXPECT_GT(detail.limit_value(), 0u) << row.name;
        EXPECT_GT(detail.used(), detail.limit_value()) << row.name;
      }
      CheckHealthy(row.name);
      EXPECT_TRUE(MemoryReturnsTo(*stubs_, in_use)) << row.name;
    }
  }
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_BAD_INPUT_BAD_INPUT_H_
