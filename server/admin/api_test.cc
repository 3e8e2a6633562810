// What needs a server is tested by tests/python/server/pages_test.py.
#include "server/admin/api.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"

namespace kiln::server {
namespace {

TEST(ApiPages, WhatProgramsComputeIsShownOnlyWhereItMayBe) {
  const std::vector<AdminPage> pages = ApiPages(nullptr, nullptr, /*shows_programs=*/false);
  const auto page =
      std::find_if(pages.begin(), pages.end(), [](const AdminPage& each) { return each.path == "/api/program"; });
  ASSERT_NE(page, pages.end());
  const AdminAnswer answer = page->answer({"hash=00&device=CPU:0&stage=llvm"});
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.type, "application/json");
  EXPECT_TRUE(absl::StrContains(answer.body, "{\"error\":\"")) << answer.body;
  EXPECT_TRUE(absl::StrContains(answer.body, "loopback")) << answer.body;
}

}  // namespace
}  // namespace kiln::server
