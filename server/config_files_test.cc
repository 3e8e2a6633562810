#include "server/config_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/config.h"

namespace kiln::server {
namespace {

class ConfigFilesTest : public ::testing::Test {
 protected:
  ConfigFilesTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(In("file")) << "something";
  }
  std::string In(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  // Nothing wrong, or the setting at fault and why.
  static std::string Fault(const v1::ServerConfig& config) {
    const absl::Status status = CheckFiles(config);
    return status.ok() ? "" : absl::StrCat(DetailOf(status)->field(), "|", status.message());
  }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/config_files");
  v1::ServerConfig config_ = DefaultConfig();
};

TEST_F(ConfigFilesTest, WhatIsThereOrCanBeMadeIsGood) {
  EXPECT_EQ(Fault(config_), "");
  config_.set_listen(absl::StrCat("unix:", In("socket")));
  config_.set_program_cache_dir(In("cache/"));
  config_.set_warm_up(In("file"));
  config_.set_data_folder(folder_);
  config_.set_models(folder_);
  config_.set_audit_log(In("audit"));
  config_.set_access_log(In("file"));
  config_.set_capture(In("capture"));
  config_.set_dump(In("dump/of/much"));
  config_.set_collectives_file(In("collectives"));
  EXPECT_EQ(Fault(config_), "");
  EXPECT_FALSE(std::filesystem::exists(In("cache")));  // it only asks
}

TEST_F(ConfigFilesTest, TheFaultNamesItsSettingAndPath) {
  const std::string file = In("file"), gone = In("gone"), deep = In("gone/deep");
  v1::ServerConfig config = config_;
  const auto check = [&](absl::string_view field, const std::string& path, absl::string_view why) {
    EXPECT_EQ(Fault(config), absl::StrCat(field, "|", field, ": ", path, ": ", why));
    config = config_;
  };
  config.set_models(gone);
  check("models", gone, "there is no such folder");
  config.set_data_folder(file);
  check("data_folder", file, "is no folder");
  config.set_warm_up(gone);
  check("warm_up", gone, "there is no such file");
  config.set_program_cache_key_file(folder_);
  check("program_cache_key_file", folder_, "is a folder, and must be a file");
  config.set_program_cache_dir(deep);
  check("program_cache_dir", deep, absl::StrCat("there is no folder ", gone));
  config.set_program_cache_dir(file);
  check("program_cache_dir", file, "is no folder");
  config.set_dump(absl::StrCat(file, "/deep"));
  check("dump", absl::StrCat(file, "/deep"), absl::StrCat("nothing can be made in ", file, ": it is no folder"));
  config.set_collectives_file(deep);
  check("collectives_file", deep, absl::StrCat("there is no folder ", gone));
  config.set_audit_log(deep);
  check("audit_log", deep, absl::StrCat("there is no folder ", gone));
  config.set_slow_log(folder_);
  check("slow_log", folder_, "is a folder, and must be a file");
  config.set_capture(file);
  check("capture", file, "is there already");
  config.set_listen(absl::StrCat("unix://", file));
  check("listen", file, "is there already, and no socket");
  config.set_listen_group("kiln_no_such_group");
  EXPECT_EQ(Fault(config), "listen_group|listen_group: this machine has no group \"kiln_no_such_group\"");
  config.set_listen_group(absl::StrCat(getegid()));
  EXPECT_EQ(Fault(config), "");
  config.mutable_shared_memory()->set_socket(deep);
  check("shared_memory.socket", deep, absl::StrCat("there is no folder ", gone));
}

}  // namespace
}  // namespace kiln::server
