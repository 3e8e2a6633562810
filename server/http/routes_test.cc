#include "server/http/routes.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

Routed Found(absl::string_view method, absl::string_view target) {
  auto routed = FindRoute(method, target);
  const auto* const found = std::get_if<Routed>(&routed);
  EXPECT_NE(found, nullptr) << method << " " << target;
  return found == nullptr ? Routed() : *found;
}

int Refused(absl::string_view method, absl::string_view target) {
  auto routed = FindRoute(method, target);
  const auto* const answer = std::get_if<HttpAnswer>(&routed);
  EXPECT_NE(answer, nullptr) << method << " " << target;
  return answer == nullptr ? 0 : answer->status;
}

TEST(FindRoute, NamesOfThePathAreDecoded) {
  const Routed plain = Found("POST", "/v2/models/double/infer");
  EXPECT_EQ(plain.route->rpc, Rpc::kModelInfer);
  EXPECT_EQ(plain.model, "double");
  EXPECT_EQ(plain.version, "");
  const Routed versioned = Found("GET", "/v2/models/a%2Db/versions/7/config?x=1");
  EXPECT_EQ(versioned.route->rpc, Rpc::kModelConfig);
  EXPECT_EQ(versioned.model, "a-b");
  EXPECT_EQ(versioned.version, "7");
}

TEST(FindRoute, EachRouteIsFoundByItsOwnPath) {
  for (const Route& route : Routes()) EXPECT_EQ(Found(route.method, route.path).route, &route) << route.path;
}

TEST(FindRoute, StatisticsOfAllAreNoModel) {
  EXPECT_EQ(Found("GET", "/v2/models/stats").route->rpc, Rpc::kModelStatistics);
  EXPECT_EQ(Found("GET", "/v2/models/stats").model, "");
  EXPECT_EQ(Found("GET", "/v2/models/stats/stats").model, "stats");
}

TEST(FindRoute, ASlashAtTheEndDoesNotCount) {
  EXPECT_EQ(Found("GET", "/v2/").route->rpc, Rpc::kServerMetadata);
  EXPECT_EQ(Found("GET", "/v2/models/m/").route->rpc, Rpc::kModelMetadata);
}

TEST(FindRoute, UnknownPathsAreNotFound) {
  for (const char* target : {"", "/", "*", "/v3", "/v2/models", "/v2/models/", "/v2/models//infer", "/v2/models/a/b/c",
                             "/v2/models/%zz", "/v2/models/%", "/v2/models/%ff", "/v2/models/a%20b", "//v2",
                             "/v2/models/m/versions/1/infer/more", "http://127.0.0.1/v2"})
    EXPECT_EQ(Refused("GET", target), 404) << target;
}

TEST(FindRoute, AnotherMethodIsToldWhichThereIs) {
  auto routed = FindRoute("GET", "/v2/models/m/infer");
  const auto& answer = std::get<HttpAnswer>(routed);
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.allow, "POST");
  EXPECT_EQ(Refused("DELETE", "/v2"), 405);
}

TEST(FindRoute, RegionsAreNamedByThePath) {
  const Routed one = Found("POST", "/v2/systemsharedmemory/region/in%2F1/register");
  EXPECT_EQ(one.route->rpc, Rpc::kSystemSharedMemoryRegister);
  EXPECT_EQ(one.region, "in/1");
  EXPECT_EQ(Found("GET", "/v2/systemsharedmemory/status").region, "");
  EXPECT_EQ(Found("POST", "/v2/cudasharedmemory/unregister").route->rpc, Rpc::kCudaSharedMemoryUnregister);
  for (const char* target : {"/v2/systemsharedmemory", "/v2/systemsharedmemory/region/a%00b/status",
                             "/v2/systemsharedmemory/region//status", "/v2/systemsharedmemory/region/a/b/status"})
    EXPECT_EQ(Refused("GET", target), 404) << target;
}

TEST(FindRoute, SettingsAreReadAndSetByOnePath) {
  EXPECT_EQ(Found("GET", "/v2/logging").route->rpc, Rpc::kLogSettings);
  EXPECT_TRUE(Found("POST", "/v2/logging").route->has_body);
  EXPECT_EQ(Found("POST", "/v2/models/m/trace/setting").model, "m");
  EXPECT_EQ(Found("GET", "/v2/trace/setting").model, "");
  EXPECT_EQ(Refused("DELETE", "/v2/logging"), 405);
}

}  // namespace
}  // namespace kiln::server
