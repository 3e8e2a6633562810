// Shell scripts stand in for kilnd.
#include "client/demo/server_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace kiln::demo {
namespace {

using ::testing::HasSubstr;

// A program that knows its port file as $port.
std::string Script(const std::string& name, const std::string& body) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\nport=${2#--port_file=}\n" << body;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(ServerProcessTest, StartsAndStops) {
  const std::string script = Script("good", "trap 'exit 0' TERM\necho 4242 > $port\nwhile :; do sleep 0.01; done\n");
  auto server = ServerProcess::Start(script);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), "127.0.0.1:4242");
  EXPECT_TRUE((*server)->Stop().ok());
}

TEST(ServerProcessTest, SaysHowItFailedToStart) {
  EXPECT_EQ(ServerProcess::Start("/nowhere/kilnd").status().code(), absl::StatusCode::kNotFound);
  const auto server = ServerProcess::Start(Script("failing", "echo 'no memory left'\nexit 3\n"));
  EXPECT_THAT(server.status().message(), HasSubstr("exited with 3 before it listened\nno memory left"));
}

TEST(ServerProcessTest, AnUncleanEndIsAnError) {
  const std::string script =
      Script("unclean", "trap 'echo dying; exit 5' TERM\necho 1 > $port\nwhile :; do sleep 0.01; done\n");
  auto server = ServerProcess::Start(script);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->Stop().message(), HasSubstr("exited with 5 when asked to stop\ndying"));
}

}  // namespace
}  // namespace kiln::demo
