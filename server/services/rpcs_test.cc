// Every RPC of the protocol has its row, and no row names another: what the table forgets
// would be refused to everybody, and none is served without a right.
#include "server/services/rpcs.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor_database.h"
#include "gtest/gtest.h"
namespace kiln::server {
namespace {

using google::protobuf::DescriptorPool;

// All "kiln.v1.KernelService.Compile" that any linked file declares, whosever it is: a service that is new, in a file
// that is new, is among them. It must be linked to be served.
std::set<std::string> DeclaredRpcs() {
  std::vector<std::string> files;
  EXPECT_TRUE(DescriptorPool::internal_generated_database()->FindAllFileNames(&files));
  std::set<std::string> rpcs;
  for (const std::string& name : files) {
    const auto* file = DescriptorPool::generated_pool()->FindFileByName(name);
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      // It answers everybody (server/services/health.h).
      if (service->full_name() == "grpc.health.v1.Health") continue;
      for (int m = 0; m < service->method_count(); ++m) {
        rpcs.insert(service->method(m)->full_name());
      }
    }
  }
  return rpcs;
}

TEST(Rpcs, AreThoseOfTheProtocol) {
  std::set<std::string> rows;
  for (const RpcRow& row : RpcRows()) {
    EXPECT_TRUE(rows.insert(absl::StrCat(row.package, ".", row.service, ".", row.name)).second)
        << row.service << "." << row.name;
  }
  EXPECT_EQ(rows, DeclaredRpcs());
}

TEST(Rpcs, NeedTheRightsThatTheirNamesSuggest) {
  std::map<std::string, Right> rights;
  for (const RpcRow& row : RpcRows()) rights[absl::StrCat(row.service, ".", row.name)] = row.right;
  EXPECT_EQ(rights.at("KernelService.Execute"), Right::kExecute);
  EXPECT_EQ(rights.at("DebugService.Explain"), Right::kDebug);
  EXPECT_EQ(rights.at("DebugService.Export"), Right::kDebug) << "one's own; all tenants' with the right to administer";
  EXPECT_EQ(rights.at("DebugService.Import"), Right::kAdmin) << "it is as powerful as to run code";
  EXPECT_EQ(rights.at("SessionService.Usage"), Right::kKnown);
  EXPECT_EQ(rights.at("ServerReflection.ServerReflectionInfo"), Right::kKnown);
  EXPECT_EQ(rights.at("GRPCInferenceService.ModelInfer"), Right::kExecute);
  EXPECT_EQ(rights.at("GRPCInferenceService.RepositoryIndex"), Right::kAdmin);
  for (const auto& [rpc, right] : rights) {
    if (rpc.substr(0, 21) == "GRPCInferenceService.") {
      // Of settings, all may read; who sets them must administer.
      const bool is_operators = rpc.find("Repository") != std::string::npos;
      EXPECT_EQ(right, is_operators ? Right::kAdmin : Right::kExecute) << rpc;
    } else if (rpc != "SessionService.Usage" && rpc != "ServerReflection.ServerReflectionInfo") {
      EXPECT_EQ(right == Right::kExecute, rpc.substr(0, 12) != "DebugService") << rpc;
    }
    EXPECT_FALSE(RightName(right).empty()) << rpc;
  }
}

}  // namespace
}  // namespace kiln::server
