#include "server/models/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxEntries = 4096;           // of one folder
constexpr size_t kMaxInAll = size_t{1} << 16;  // of one scan
constexpr size_t kLongestName = 128;

struct Close {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, Close>;

// Null, with errno, for what is no folder or a link to one.
Folder OpenIn(int parent, const char* name, bool follow = false) {
  const int descriptor = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
  if (descriptor < 0) return nullptr;
  Folder folder(fdopendir(descriptor));
  if (folder == nullptr) close(descriptor);
  return folder;
}

// After a call that failed: whether that is because there is no such thing, or a link.
bool IsAbsent() { return errno == ENOENT || errno == ENOTDIR || errno == ELOOP; }

bool StatIn(DIR* folder, const std::string& name, struct stat& about) {
  return fstatat(dirfd(folder), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string Shown(absl::string_view name) { return absl::CHexEscape(name.substr(0, kLongestName)); }

class Scanner {
 public:
  explicit Scanner(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<FolderScan> Scan() {
    const Folder root = OpenIn(AT_FDCWD, path_.c_str(), /*follow=*/true);
    if (root == nullptr) return absl::NotFoundError(absl::StrCat("models: ", path_, ": ", std::strerror(errno)));
    std::vector<std::string> names;
    if (!List(root.get(), names)) {
      if (failed_) return absl::NotFoundError(absl::StrCat("models: ", path_, ": cannot be listed"));
      Skip("...", "there are more entries than are looked at");
    }
    for (const std::string& name : names) {
      if (!IsModelName(name)) {
        struct stat about;
        if (!StatIn(root.get(), name, about) || S_ISREG(about.st_mode)) continue;
        Skip(name, "a model's name begins with a letter or a digit, and has these, '.', '_' and '-', at most 128");
        continue;
      }
      failed_ = false;
      const size_t before = scan_.models.size();
      const Folder model = OpenIn(dirfd(root.get()), name.c_str());
      if (model != nullptr) {
        AtModel(model.get(), name);
      } else if (struct stat about; Failed() || !StatIn(root.get(), name, about) || !S_ISREG(about.st_mode)) {
        Skip(name, "no folder that can be read; links are not followed");
      }
      if (!failed_) continue;
      scan_.models.resize(before);
      scan_.unreadable.push_back(name);
    }
    std::sort(scan_.models.begin(), scan_.models.end(), [](const ModelFiles& a, const ModelFiles& b) {
      return std::pair(a.name, a.version) < std::pair(b.name, b.version);
    });
    return std::move(scan_);
  }

 private:
  // Notes whether what has failed may be there for all that.
  bool Failed() {
    failed_ |= !IsAbsent();
    return failed_;
  }

  // Names in order, without those that begin with a dot. Whether these are all.
  bool List(DIR* folder, std::vector<std::string>& names) {
    for (;;) {
      errno = 0;
      const dirent* const entry = readdir(folder);
      if (entry == nullptr && errno != 0) failed_ = true;
      if (entry == nullptr) break;
      if (entry->d_name[0] == '.') continue;
      if (names.size() == kMaxEntries || left_ == 0) return false;
      --left_;
      names.emplace_back(entry->d_name);
    }
    std::sort(names.begin(), names.end());
    return !failed_;
  }

  void Skip(absl::string_view name, absl::string_view reason) {
    if (scan_.skipped.size() < kMaxEntries) scan_.skipped.push_back({Shown(name), std::string(reason)});
  }

  void AtModel(DIR* folder, const std::string& name) {
    std::vector<std::string> versions;
    if (!List(folder, versions) && !failed_) Skip(name, "there are more entries than are looked at");
    size_t found = 0;
    const size_t first = scan_.models.size();
    for (const std::string& version : versions) {
      const uint64_t number = ModelVersion(version);
      if (number == 0) continue;
      const Folder files = OpenIn(dirfd(folder), version.c_str());
      if (files == nullptr) Failed();
      if (files != nullptr && AtVersion(files.get(), name, number)) ++found;
    }
    AddConfig(folder, name, first);
    if (found == 0)
      Skip(name,
           absl::StrCat("has no VERSION/", kModelFile, " or ", kGraphFile, ", with a version such as 1, and no links"));
  }

  // To the versions from the `first` on, which are all of the model's.
  void AddConfig(DIR* folder, const std::string& name, size_t first) {
    struct stat about;
    if (!StatIn(folder, kConfigFile, about)) {
      Failed();
      return;
    }
    for (size_t i = first; i < scan_.models.size(); ++i) {
      if (S_ISREG(about.st_mode)) {
        scan_.models[i].config = absl::StrCat(path_, "/", name, "/", kConfigFile);
      } else {
        // Without its settings, a model with state would be served as another one.
        scan_.models[i].refused = absl::StrCat(kConfigFile, ": no plain file; links are not followed");
      }
      AddFile(kConfigFile, about, scan_.models[i]);
    }
  }

  static void AddFile(absl::string_view name, const struct stat& about, ModelFiles& files) {
    files.bytes += static_cast<uint64_t>(about.st_size);
    absl::StrAppend(&files.identity, name, "/", about.st_dev, ".", about.st_ino, ".", about.st_size, ".",
                    about.st_mtim.tv_sec, ".", about.st_mtim.tv_nsec, ".", about.st_ctim.tv_sec, ".",
                    about.st_ctim.tv_nsec, "/");
  }

  // Whether there is such a file, and whether it is a plain one.
  struct Found {
    bool there = false, plain = false;
  };
  Found Look(DIR* folder, const char* file) {
    struct stat about;
    if (StatIn(folder, file, about)) return {true, S_ISREG(about.st_mode)};
    Failed();
    return {};
  }

  bool AtVersion(DIR* folder, const std::string& name, uint64_t version) {
    const Found model = Look(folder, kModelFile), graph = Look(folder, kGraphFile);
    if (!model.plain && !graph.plain) return false;
    ModelFiles files{name, version};
    files.is_graph = graph.plain;
    files.path = absl::StrCat(path_, "/", name, "/", version, "/", files.is_graph ? kGraphFile : kModelFile);
    if (model.there && graph.there) {
      files.refused = absl::StrCat(kGraphFile, ": ", kModelFile, " lies beside it; a version is one of them");
    } else if (files.is_graph && !Look(folder, kConstantsFile).plain) {
      files.refused = absl::StrCat(kConstantsFile, ": no plain file beside ", kGraphFile, "; links are not followed");
    }
    files.identity = files.refused;  // a link that goes changes nothing else
    struct stat about;
    std::vector<std::string> names;
    List(folder, names);
    for (const std::string& each : names) {
      if (!StatIn(folder, each, about)) {
        Failed();
        continue;
      }
      if (!S_ISREG(about.st_mode)) continue;
      AddFile(each, about, files);
    }
    scan_.models.push_back(std::move(files));
    return true;
  }

  const std::string path_;
  size_t left_ = kMaxInAll;  // entries that may still be looked at
  bool failed_ = false;      // something of the model that is looked at
  FolderScan scan_;
};

}  // namespace

bool IsModelName(absl::string_view name) {
  const auto plain = [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= kLongestName && absl::ascii_isalnum(name[0]) &&
         std::all_of(name.begin(), name.end(), plain);
}

uint64_t ModelVersion(absl::string_view text) {
  uint64_t number = 0;
  const bool digits = !text.empty() && text[0] != '0' && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  return digits && absl::SimpleAtoi(text, &number) ? number : 0;
}

absl::StatusOr<FolderScan> ScanFolder(const std::string& folder) { return Scanner(folder).Scan(); }

}  // namespace kiln::server
