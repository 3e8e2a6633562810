#include "server/config_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "server/config.h"
#include "server/port/socket_file.h"

namespace kiln::server {
namespace {

enum class Use {
  kRead,        // a file that is there
  kList,        // a folder that is there
  kMakeFolder,  // a folder that is there and may be written, or can be made
  kMakeAll,     // the same, with those around it
  kAppend,      // a file that may be written, or can be made
  kReplace,     // a file that is written anew beside it, and takes its place
  kCreate,      // a file that is not there and can be made
  kSocket,      // the same, or a socket that a server before has left
};

struct Row {
  const char* setting;
  Use use;
};

constexpr Row kRows[] = {
    {"listen", Use::kSocket},
    {"program_cache_dir", Use::kMakeFolder},
    {"program_cache_key_file", Use::kRead},
    {"warm_up", Use::kRead},
    {"shared_memory.socket", Use::kSocket},
    {"data_folder", Use::kList},
    {"collectives_file", Use::kReplace},
    {"capture", Use::kCreate},
    {"audit_log", Use::kAppend},
    {"access_log", Use::kAppend},
    {"slow_log", Use::kAppend},
    {"models", Use::kList},
    {"dump", Use::kMakeAll},
};

// The value of a setting that is a text.
std::string ValueOf(const google::protobuf::Message& config, absl::string_view setting) {
  const google::protobuf::Message* message = &config;
  for (;;) {
    const size_t dot = setting.find('.');
    const auto* field = message->GetDescriptor()->FindFieldByName(std::string(setting.substr(0, dot)));
    if (dot == absl::string_view::npos) return message->GetReflection()->GetString(*message, field);
    message = &message->GetReflection()->GetMessage(*message, field);
    setting.remove_prefix(dot + 1);
  }
}

// The folder around it.
std::string Around(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string WhyNotMade(const std::string& path) {
  const std::string folder = Around(path);
  struct stat found = {};
  if (stat(folder.c_str(), &found) != 0) return absl::StrCat("there is no folder ", folder);
  if (!S_ISDIR(found.st_mode)) return absl::StrCat("nothing can be made in ", folder, ": it is no folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return absl::StrCat("nothing can be made in ", folder, ": ", std::strerror(errno));
  return "";
}

// What is wrong; empty if nothing is.
std::string WhyNot(const std::string& path, Use use) {
  struct stat found = {};
  const bool there = stat(path.c_str(), &found) == 0;
  const bool folder = there && S_ISDIR(found.st_mode);
  switch (use) {
    case Use::kRead:
      if (!there) return "there is no such file";
      if (folder) return "is a folder, and must be a file";
      return access(path.c_str(), R_OK) == 0 ? "" : "cannot be read by this user";
    case Use::kList:
      if (!there) return "there is no such folder";
      if (!folder) return "is no folder";
      return access(path.c_str(), R_OK | X_OK) == 0 ? "" : "cannot be read by this user";
    case Use::kMakeFolder:
      if (!there) return WhyNotMade(path);
      if (!folder) return "is no folder";
      return access(path.c_str(), R_OK | W_OK | X_OK) == 0 ? "" : "cannot be written by this user";
    case Use::kMakeAll:
      for (std::string around = path; !there; around = Around(around)) {
        if (access(Around(around).c_str(), F_OK) == 0) return WhyNotMade(around);
      }
      return WhyNot(path, Use::kMakeFolder);
    case Use::kReplace: return folder ? "is a folder, and must be a file" : WhyNotMade(path);
    case Use::kAppend:
      if (!there) return WhyNotMade(path);
      if (folder) return "is a folder, and must be a file";
      return access(path.c_str(), W_OK) == 0 ? "" : "cannot be written by this user";
    case Use::kCreate: return there ? "is there already" : WhyNotMade(path);
    case Use::kSocket: return there && !S_ISSOCK(found.st_mode) ? "is there already, and no socket" : WhyNotMade(path);
  }
  return "";
}

}  // namespace

absl::Status CheckFiles(const v1::ServerConfig& config) {
  for (const Row& row : kRows) {
    std::string path = ValueOf(config, row.setting);
    if (row.use == Use::kSocket && absl::string_view(row.setting) == "listen") {
      if (!absl::StartsWith(path, "unix:")) continue;
      path = path.substr(absl::StartsWith(path, "unix://") ? 7 : 5);
    }
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (path.empty()) continue;
    const std::string why = WhyNot(path, row.use);
    if (why.empty()) continue;
    return BadSetting(row.setting, absl::StrCat(path, ": ", why));
  }
  if (const std::string& group = config.listen_group(); !group.empty()) {
    const absl::StatusOr<gid_t> found = FindGroup(group);
    if (!found.ok()) return BadSetting("listen_group", found.status().message());
    if (!MayGiveToGroup(*found)) return BadSetting("listen_group", absl::StrCat(group, ": this user is not in it"));
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
