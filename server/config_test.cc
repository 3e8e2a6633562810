#include "server/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "google/protobuf/descriptor.h"
#include "server/compile_memory.h"

namespace kiln::server {
namespace {

absl::StatusOr<Invocation> Parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "kilnd");
  return ParseCommandLine(static_cast<int>(flags.size()), flags.data());
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << text;
  return path;
}

// Every scalar field of the message, by its dotted path.
void Collect(const google::protobuf::Descriptor* type, const std::string& prefix, std::set<std::string>& paths) {
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (field->message_type() != nullptr) {
      Collect(field->message_type(), absl::StrCat(prefix, field->name(), "."), paths);
    } else {
      paths.insert(absl::StrCat(prefix, field->name()));
    }
  }
}

TEST(ConfigTest, EveryFieldHasARow) {
  std::set<std::string> fields, rows;
  Collect(v1::ServerConfig::descriptor(), "", fields);
  for (const ConfigRow& row : ConfigRows()) rows.insert(row.path);
  EXPECT_EQ(fields, rows);
}

TEST(ConfigTest, DefaultsAreGoodAndClosedToOthers) {
  EXPECT_TRUE(CheckConfig(DefaultConfig()).ok());
  EXPECT_TRUE(IsLoopback(DefaultConfig().listen()));
  EXPECT_EQ(DefaultConfig().graph_limits().max_nodes(), 200'000u);
}

TEST(ConfigTest, AnAddressToBeReachedByIsOne) {
  for (const char* good : {"gpu1:7437", "10.0.0.7:0", "[::1]:7437"})
    EXPECT_TRUE(Parse({"--advertise", good}).ok()) << good;
  for (const char* bad :
       {"gpu1", ":7437", "gpu 1:7437", "gpu1:x", "ipv4:1.2.3.4:5", "a:1,b:2", "0.0.0.0:7437", "[::]:1"}) {
    EXPECT_EQ(DetailOf(Parse({"--advertise", bad}).status())->field(), "advertise") << bad;
  }
  EXPECT_FALSE(Parse({"--listen", "unix:/tmp/kiln", "--advertise", "gpu1:0"}).ok());
}

TEST(ConfigTest, FlagBeatsEnvironmentBeatsFile) {
  const std::string file =
      WriteFile("order.txtpb", "drain_seconds: 1 cpu_threads: 1 compile_threads: 1 insecure: true");
  setenv("KILN_CPU_THREADS", "2", 1);
  setenv("KILN_COMPILE_THREADS", "2", 1);
  const auto invocation = Parse({absl::StrCat("--config=", file).c_str(), "--compile_threads=3"});
  unsetenv("KILN_CPU_THREADS");
  unsetenv("KILN_COMPILE_THREADS");
  ASSERT_TRUE(invocation.ok()) << invocation.status();
  EXPECT_EQ(invocation->config.drain_seconds(), 1u);
  EXPECT_EQ(invocation->config.cpu_threads(), 2u);
  EXPECT_EQ(invocation->config.compile_threads(), 3u);
  EXPECT_TRUE(invocation->config.insecure());
}

TEST(ConfigTest, AFlagOfAFieldInAnotherNeedsNoValueEither) {
  const auto invocation = Parse({"--shared_memory_named_max_bytes=7", "--shared_memory_named_loopback", "--insecure"});
  ASSERT_TRUE(invocation.ok()) << invocation.status();
  EXPECT_EQ(invocation->message, "");
  EXPECT_EQ(invocation->config.shared_memory().named_max_bytes(), 7u);
  EXPECT_TRUE(invocation->config.shared_memory().named_loopback());
  EXPECT_FALSE(DefaultConfig().shared_memory().named_loopback());
}

TEST(ConfigTest, NestedFieldAndSwitch) {
  const auto invocation = Parse({"--graph_limits_max_nodes=7", "--insecure", "--check_config", "--port_file=p"});
  ASSERT_TRUE(invocation.ok()) << invocation.status();
  EXPECT_EQ(invocation->config.graph_limits().max_nodes(), 7u);
  EXPECT_TRUE(invocation->config.insecure());
  EXPECT_TRUE(invocation->check_config);
  EXPECT_EQ(invocation->port_file, "p");
}

TEST(ConfigTest, PassesAreNamedAsToolsNameThem) {
  const auto invocation = Parse({"--disable_pass=scan, keep_row,scan"});
  ASSERT_TRUE(invocation.ok()) << invocation.status();
  EXPECT_EQ(DisabledPasses(invocation->config), (std::vector<std::string>{"keep row", "scan"}));
  EXPECT_TRUE(DisabledPasses(DefaultConfig()).empty());
}

TEST(ConfigTest, TheLargestMessageFollowsTheGraphs) {
  v1::ServerConfig config = DefaultConfig();
  EXPECT_EQ(LargestMessage(config), uint64_t{192} << 20);
  config.mutable_graph_limits()->set_max_bytes(1 << 20);
  EXPECT_EQ(LargestMessage(config), uint64_t{66} << 20);
  config.mutable_graph_limits()->set_max_bytes(1 << 30);
  EXPECT_EQ(LargestMessage(config), (uint64_t{1} << 31) - 1);
}

TEST(ConfigTest, WhatMemoryIsGivenToAddsUp) {
  constexpr uint64_t kMachine = uint64_t{20} << 30;
  v1::ServerConfig config;
  config.set_compile_isolation("auto");
  EXPECT_EQ(CompileMemoryBytes(config, kMachine), 0u);
  EXPECT_EQ(DefaultCpuMemoryBytes(config, kMachine), uint64_t{16} << 30);
  config.set_tenants("file");
  EXPECT_EQ(CompileMemoryBytes(config, kMachine), uint64_t{5} << 30);
  EXPECT_EQ(DefaultCpuMemoryBytes(config, kMachine), uint64_t{11} << 30);
  config.mutable_compile_limits()->set_max_total_memory_bytes(uint64_t{2} << 30);
  EXPECT_EQ(CompileMemoryBytes(config, kMachine), uint64_t{2} << 30);
  EXPECT_EQ(DefaultCpuMemoryBytes(config, kMachine), uint64_t{14} << 30);
  // However much compiling may take, there is something left to run with.
  config.mutable_compile_limits()->set_max_total_memory_bytes(uint64_t{64} << 30);
  EXPECT_EQ(DefaultCpuMemoryBytes(config, kMachine), uint64_t{4} << 30);
  config.set_compile_isolation("off");
  EXPECT_EQ(CompileMemoryBytes(config, kMachine), 0u);
}

TEST(ConfigTest, HelpTeachesEveryFlag) {
  const auto invocation = Parse({"--help"});
  ASSERT_TRUE(invocation.ok());
  EXPECT_EQ(invocation->exit_code, 0);
  for (const ConfigRow& row : ConfigRows()) {
    EXPECT_NE(invocation->message.find(row.help), std::string::npos) << row.path << "\n" << invocation->message;
  }
}

TEST(ConfigTest, UnknownFlagIsRefused) {
  const auto invocation = Parse({"--lisen=127.0.0.1:0"});
  ASSERT_TRUE(invocation.ok());
  EXPECT_NE(invocation->exit_code, 0);
  EXPECT_NE(invocation->message.find("lisen"), std::string::npos) << invocation->message;
}

TEST(ConfigTest, FaultsNameTheField) {
  const std::string bad_file = WriteFile("bad.txtpb", "drain_seconds: 1\nno_such_field: 2\n");
  struct Row {
    std::string flag;
    std::string field;
    std::string text;
  };
  const Row rows[] = {
      {"--listen=0.0.0.0:80", "listen", "--insecure"},
      {"--listen=example", "listen", "host:port"},
      {"--listen=127.0.0.1:70000", "listen", "host:port"},
      {"--listen_mode=0660", "listen_mode", "127.0.0.1:7437 is none"},
      {"--listen_group=users", "listen_group", "127.0.0.1:7437 is none"},
      {"--admin_listen=0.0.0.0:80", "admin_listen", "--insecure"},
      {"--admin_listen=127.0.0.1:80,0.0.0.0:80", "admin_listen", "--insecure"},
      {"--admin_listen=unix:/run/kiln", "admin_listen", "host:port"},
      {"--admin_listen=[::1]:80", "admin_listen", "IPv6"},
      {"--admin_listen=127.0.0.1", "admin_listen", "host:port"},
      {"--http_listen=0.0.0.0:80", "http_listen", "--insecure"},
      {"--http_listen=127.0.0.1:80,0.0.0.0:80", "http_listen", "--insecure"},
      {"--http_listen=unix:/run/kiln", "http_listen", "host:port"},
      {"--http_listen=127.0.0.1", "http_listen", "host:port"},
      {"--drain_seconds=soon", "drain_seconds", "soon"},
      {"--insecure=perhaps", "insecure", "perhaps"},
      {"--log_level=loud", "log_level", "loud"},
      {"--session_limits_default_lease_seconds=0", "session_limits.default_lease_seconds", "between 1 and"},
      {"--session_limits_max_lease_seconds=9", "session_limits.default_lease_seconds", "longest lease, 9"},
      {"--connection_limits_max_streams=0", "connection_limits.max_streams", "none"},
      {"--connection_limits_max_bytes=1000000", "connection_limits.max_bytes", "201326592 bytes"},
      {"--gpus=all", "gpus", "auto, none, cuda, hip or cuda,hip"},
      {"--gpu_memory_percent=101", "gpu_memory_percent", "more than 100"},
      {"--trace_buffer_bytes=268435457", "trace_buffer_bytes", "more than 256 MiB"},
      {"--ptxas=/no/such/ptxas", "ptxas", "no program that can be run"},
      {"--shared_memory_named_loopback", "shared_memory.named_loopback", "named_max_bytes"},
      {"--mpi=perhaps", "mpi", "on, off or auto"},
      {"--disable_pass=optimize,bounds", "disable_pass",
       "\"bounds\" cannot be disabled: no program compiles without it; these can: choose layouts, chain kernels, "
       "simplify ranges, contract products, scan, optimize, hoist copies, core products, dots, keep row"},
      {"--disable_pass=optimise", "disable_pass", "there is no pass called so; these can: choose layouts"},
      {"--rank_silence_seconds=0", "rank_silence_seconds", "between 1 and"},
      {"--rank_death=panic", "rank_death", "serve or stop"},
      {absl::StrCat("--config=", bad_file), "config", "line 2"},
      {"--config=/no/such/file", "config", "cannot read"},
  };
  for (const Row& row : rows) {
    const auto invocation = Parse({row.flag.c_str()});
    if (invocation.ok()) {  // CLI11 itself refuses some
      EXPECT_NE(invocation->exit_code, 0) << row.flag;
      EXPECT_NE(invocation->message.find(row.field), std::string::npos) << invocation->message;
      continue;
    }
    EXPECT_EQ(DetailOf(invocation.status())->field(), row.field) << invocation.status();
    EXPECT_NE(invocation.status().message().find(row.text), absl::string_view::npos) << invocation.status();
  }
}

TEST(ConfigTest, WhoMayConnectToASocketsFile) {
  const auto fault = [](const char* mode, const char* group) {
    v1::ServerConfig config = DefaultConfig();
    config.set_listen("unix:/run/kiln/kilnd.sock");
    config.set_listen_mode(mode);
    config.set_listen_group(group);
    const absl::Status status = CheckConfig(config);
    return status.ok() ? "" : absl::StrCat(DetailOf(status)->field(), "|", status.message());
  };
  EXPECT_EQ(fault("", ""), "");
  EXPECT_EQ(fault("0666", ""), "");
  EXPECT_EQ(fault("660", "users"), "");
  EXPECT_EQ(fault("", "users"), "");
  EXPECT_EQ(fault("0600", "users"), "listen_mode|listen_mode: 0600 lets nobody of listen_group connect; 0660 does");
  EXPECT_EQ(fault("rw", ""),
            "listen_mode|listen_mode: \"rw\" is no mode of a socket: 0600 for its own user, 0660 for a group as well, "
            "or 0666 for all");
}

TEST(ConfigTest, Loopback) {
  for (const char* address : {"127.0.0.1:1", "localhost:1", "[::1]:1", "127.9.9.9:0", "unix:/run/kiln"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.com:1", "127.example.com:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace kiln::server
