// Reflection and health: what a server says to whoever asks, and what only to those whom it knows.
#include <gtest/gtest.h>

#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/descriptor_database.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/services/health.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

class ReflectionTest : public ServerTest {
 protected:
  // What a stream of one request is answered.
  absl::StatusOr<ServerReflectionResponse> Ask(const ServerReflectionRequest& request, const std::string& token = "") {
    const auto stub = ServerReflection::NewStub(stubs_->channel);
    const auto context = NewContext();
    if (!token.empty()) context->AddMetadata("authorization", "Bearer " + token);
    const auto stream = stub->ServerReflectionInfo(context.get());
    stream->Write(request);
    stream->WritesDone();
    ServerReflectionResponse answer, more;
    const bool answered = stream->Read(&answer);
    EXPECT_FALSE(stream->Read(&more));
    const absl::Status status = server::FromGrpc(stream->Finish());
    if (!status.ok()) return status;
    EXPECT_TRUE(answered);
    return answer;
  }

  ServerReflectionRequest List() const {
    ServerReflectionRequest request;
    request.set_list_services("*");
    return request;
  }
};

TEST_F(ReflectionTest, ListsServicesAndGivesTheirFilesWithAllThatTheyImport) {
  const auto listed = Ask(List());
  ASSERT_TRUE(listed.ok()) << listed.status();
  std::vector<std::string> names;
  for (const auto& service : listed->list_services_response().service()) names.push_back(service.name());
  EXPECT_EQ(names,
            (std::vector<std::string>{"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
                                      "inference.GRPCInferenceService", "kiln.v1.BufferService",
                                      "kiln.v1.CollectiveService", "kiln.v1.DebugService", "kiln.v1.DeviceService",
                                      "kiln.v1.KernelService", "kiln.v1.SessionService"}));
  for (const std::string& name : names) {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(name);
    const auto answer = Ask(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->original_request().file_containing_symbol(), name);
    // A tool makes a pool of them, which asks for each import.
    google::protobuf::SimpleDescriptorDatabase files;
    for (const std::string& bytes : answer->file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(bytes));
      ASSERT_TRUE(files.Add(file));
    }
    const google::protobuf::DescriptorPool pool(&files);
    EXPECT_NE(pool.FindServiceByName(name), nullptr) << name;
  }
}

TEST_F(ReflectionTest, WhatIsNotThereIsNotFoundAndTheStreamGoesOn) {
  const auto stub = ServerReflection::NewStub(stubs_->channel);
  const auto context = NewContext();
  const auto stream = stub->ServerReflectionInfo(context.get());
  ServerReflectionRequest request;
  ServerReflectionResponse answer;
  for (int i = 0; i < 4; ++i) {
    if (i == 0) request.set_file_containing_symbol("kiln.v1.Nothing");
    if (i == 1) request.set_file_by_filename("../../etc/passwd");
    if (i == 2) request.set_all_extension_numbers_of_type("kiln.v1.Graph");
    if (i == 3) request.clear_message_request();
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(answer.error_response().error_code(), grpc::StatusCode::NOT_FOUND) << i;
  }
  ASSERT_TRUE(stream->Write(List()));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_GT(answer.list_services_response().service_size(), 6);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ReflectionTest, WithTenantsItAnswersTenantsAlone) {
  const std::string path = absl::StrCat(testing::TempDir(), "/reflection_tenants.txtpb");
  // The SHA-256 of "secret".
  std::ofstream(path) << "tenant { name: \"a\" right: ADMIN_RIGHT token { sha256: "
                         "\"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\" } }\n";
  v1::ServerConfig config = server::DefaultConfig();
  config.set_tenants(path);
  Start(config);
  const auto stranger = Ask(List());
  EXPECT_EQ(DetailOf(stranger.status())->code(), v1::NOT_AUTHENTICATED) << stranger.status();
  const auto tenant = Ask(List(), "secret");
  ASSERT_TRUE(tenant.ok()) << tenant.status();
  EXPECT_GT(tenant->list_services_response().service_size(), 6);
}

TEST_F(ReflectionTest, ALongRequestEndsTheStream) {
  ServerReflectionRequest request;
  request.set_file_by_filename(std::string(1 << 20, 'x'));
  EXPECT_EQ(DetailOf(Ask(request).status())->code(), v1::GRAPH_TOO_LARGE);
}

class HealthTest : public ServerTest {
 protected:
  struct Watch {
    std::unique_ptr<grpc::ClientContext> context = NewContext();
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream;
  };
  Watch Begin(const std::string& service) {
    Watch watch;
    HealthCheckRequest request;
    request.set_service(service);
    watch.stream = stubs_->health->Watch(watch.context.get(), request);
    return watch;
  }
  static HealthCheckResponse::ServingStatus Next(Watch& watch) {
    HealthCheckResponse response;
    return watch.stream->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }
};

TEST_F(HealthTest, AWatchHearsOfChangesAndOfTheEnd) {
  Watch all = Begin(""), device = Begin("CPU:0"), unknown = Begin("CPU:77");
  EXPECT_EQ(Next(all), HealthCheckResponse::SERVING);
  EXPECT_EQ(Next(device), HealthCheckResponse::SERVING);
  EXPECT_EQ(Next(unknown), HealthCheckResponse::SERVICE_UNKNOWN);
  server_->AnnounceEnd();
  EXPECT_EQ(Next(all), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Next(device), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(*stubs_), HealthCheckResponse::NOT_SERVING);
  server_.reset();
  EXPECT_EQ(Next(all), HealthCheckResponse::UNKNOWN);
}

TEST_F(HealthTest, WatchesOfOneAddressAreCountedAndComeBack) {
  constexpr size_t kMost = server::HealthService::kWatchesOfAddress;
  std::deque<Watch> watches;
  for (size_t i = 0; i < kMost; ++i) {
    watches.push_back(Begin(""));
    ASSERT_EQ(Next(watches.back()), HealthCheckResponse::SERVING) << i;
  }
  Watch refused = Begin("");
  EXPECT_EQ(Next(refused), HealthCheckResponse::UNKNOWN);
  const absl::Status status = server::FromGrpc(refused.stream->Finish());
  EXPECT_EQ(DetailOf(status)->code(), v1::OUT_OF_MEMORY) << status;
  EXPECT_EQ(DetailOf(status)->limit(), "health watches");
  EXPECT_EQ(DetailOf(status)->limit_value(), kMost);
  // Who asks is answered all the same.
  EXPECT_EQ(Health(*stubs_), HealthCheckResponse::SERVING);
  watches.front().context->TryCancel();
  EXPECT_TRUE(Eventually([&] {
    Watch again = Begin("");
    return Next(again) == HealthCheckResponse::SERVING;
  }));
}

TEST_F(HealthTest, LongNamesAreRefused) {
  HealthCheckRequest request;
  HealthCheckResponse response;
  for (const auto& [size, code] :
       {std::make_pair(300, v1::BAD_ARGUMENT), std::make_pair(1 << 20, v1::GRAPH_TOO_LARGE)}) {
    request.set_service(std::string(size, 'x'));
    const absl::Status status = Call(*stubs_->health, &grpc::health::v1::Health::Stub::Check, request, response);
    EXPECT_EQ(DetailOf(status)->code(), code) << status;
    Watch watch = Begin(request.service());
    EXPECT_EQ(Next(watch), HealthCheckResponse::UNKNOWN);
    EXPECT_EQ(DetailOf(server::FromGrpc(watch.stream->Finish()))->code(), code);
  }
}

TEST(AddressOfPeer, IsWithoutThePort) {
  EXPECT_EQ(server::AddressOfPeer("ipv4:10.0.0.7:4711"), "ipv4:10.0.0.7");
  EXPECT_EQ(server::AddressOfPeer("ipv6:%5B::1%5D:4711"), "ipv6:%5B::1%5D");
  EXPECT_EQ(server::AddressOfPeer("unix:"), "unix");
  EXPECT_EQ(server::AddressOfPeer("unix:/run/kilnd.sock"), "unix");
  EXPECT_EQ(server::AddressOfPeer("unix:@name:1"), "unix");
}

}  // namespace
}  // namespace kiln::e2e
