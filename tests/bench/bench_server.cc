#include "tests/bench/bench_server.h"

#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/graph/graph_text.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "server/config.h"
#include "server/process/process.h"

namespace kiln::bench {

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

grpc::ByteBuffer ToMessage(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

int WriteReport(const nlohmann::json& report, const std::string& path) {
  if (path.empty()) return 0;
  std::ofstream file(path);
  file << report.dump(2) << "\n";
  file.close();
  return file ? 0 : 1;
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

namespace {

v1::ServerConfig Sharing(uint64_t shared_memory_bytes) {
  v1::ServerConfig config = server::DefaultConfig();
  config.mutable_shared_memory()->set_max_bytes(shared_memory_bytes);
  return config;
}

}  // namespace

BenchServer::BenchServer(uint64_t shared_memory_bytes) : BenchServer(Sharing(shared_memory_bytes)) {}

BenchServer::BenchServer(v1::ServerConfig config, const std::string& worker) {
  server::PrepareToServe();  // as kilnd does
  config.set_listen("127.0.0.1:0");
  auto log = std::make_shared<spdlog::logger>("bench", std::make_shared<spdlog::sinks::null_sink_mt>());
  auto started = server::StartServer(config, std::move(log), worker);
  if (!started.ok()) std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
  KILN_CHECK(started.ok());
  server_ = *std::move(started);
  address_ = absl::StrCat("127.0.0.1:", server_->port());
}

std::string BenchServer::Compile(const char* text) const {
  v1::CompileRequest request;
  *request.mutable_graph() = *ParseGraph(text);
  grpc::ClientContext context;
  v1::CompileResponse response;
  const grpc::Status status = v1::KernelService::NewStub(ChannelTo(address_))->Compile(&context, request, &response);
  if (!status.ok()) std::fprintf(stderr, "Compile: %s\n", status.error_message().c_str());
  KILN_CHECK(status.ok());
  return response.graph_hash();
}

}  // namespace kiln::bench
