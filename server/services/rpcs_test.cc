// Every RPC of the protocol has its row, and no row names another: what the table forgets
// would be refused to everybody, and none is served without a right.
#include "server/services/rpcs.h"

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"
#include "kiln/v1/buffer_service.pb.h"
#include "kiln/v1/collective_service.pb.h"
#include "kiln/v1/debug_service.pb.h"
#include "kiln/v1/device_service.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/session_service.pb.h"

namespace kiln::server {
namespace {

// All "kiln.v1.KernelService.Compile" that the linked files declare.
std::set<std::string> DeclaredRpcs() {
  std::set<std::string> rpcs;
  for (const auto* file : {v1::CompileRequest::descriptor()->file(), v1::AllocateRequest::descriptor()->file(),
                           v1::ListDevicesRequest::descriptor()->file(), v1::ExplainRequest::descriptor()->file(),
                           v1::OpenSessionRequest::descriptor()->file(), v1::CollectiveRequest::descriptor()->file(),
                           inference::ModelInferRequest::descriptor()->file()}) {
    EXPECT_GT(file->service_count(), 0) << file->name();
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
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
  EXPECT_EQ(rights.at("DebugService.Import"), Right::kAdmin);
  EXPECT_EQ(rights.at("SessionService.Usage"), Right::kKnown);
  EXPECT_EQ(rights.at("GRPCInferenceService.ModelInfer"), Right::kExecute);
  EXPECT_EQ(rights.at("GRPCInferenceService.RepositoryIndex"), Right::kAdmin);
  for (const auto& [rpc, right] : rights) {
    if (rpc.substr(0, 21) == "GRPCInferenceService.") {
      const bool is_operators = rpc.find("Repository") != std::string::npos || rpc.find("Setting") != std::string::npos;
      EXPECT_EQ(right, is_operators ? Right::kAdmin : Right::kExecute) << rpc;
    } else if (rpc != "SessionService.Usage") {
      EXPECT_EQ(right == Right::kExecute, rpc.substr(0, 12) != "DebugService") << rpc;
    }
    EXPECT_FALSE(RightName(right).empty()) << rpc;
  }
}

}  // namespace
}  // namespace kiln::server
