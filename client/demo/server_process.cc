#include "client/demo/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"

namespace kiln::demo {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr size_t kLogTail = 2000;

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path);
  return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

std::string HowItEnded(int status) {
  return WIFSIGNALED(status) ? absl::StrCat("was killed by signal ", WTERMSIG(status))
                             : absl::StrCat("exited with ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& path,
                                                                    const std::vector<std::string>& flags) {
  // mkdtemp replaces six capital X with a name that is free.
  std::string folder = (std::filesystem::temp_directory_path() / "kiln-demo-").string() + std::string(6, 'X');
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make a folder for the server's files: ", std::strerror(errno)));
  }
  std::vector<std::string> words = {path, "--listen=127.0.0.1:0", absl::StrCat("--port_file=", folder, "/port")};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, (folder + "/log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = -1;
  const int failed = posix_spawn(&process, path.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);

  std::unique_ptr<ServerProcess> server(new ServerProcess(failed == 0 ? process : -1, folder));
  if (failed != 0) return absl::NotFoundError(absl::StrCat("cannot run ", path, ": ", std::strerror(failed)));
  KILN_RETURN_IF_ERROR(server->WaitForPort());
  return server;
}

ServerProcess::~ServerProcess() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

absl::Status ServerProcess::WaitForPort() {
  for (const absl::Time deadline = absl::Now() + kTimeout; absl::Now() < deadline; absl::SleepFor(kPause)) {
    std::string port = ReadAll(folder_ + "/port");
    absl::StripAsciiWhitespace(&port);
    if (!port.empty()) {
      address_ = absl::StrCat("127.0.0.1:", port);
      return absl::OkStatus();
    }
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
      return absl::UnavailableError(absl::StrCat("kilnd ", HowItEnded(status), " before it listened\n", LogTail()));
    }
  }
  return absl::DeadlineExceededError(
      absl::StrCat("kilnd did not listen within ", absl::FormatDuration(kTimeout), "\n", LogTail()));
}

absl::Status ServerProcess::Stop() {
  kill(process_, SIGTERM);
  for (const absl::Time deadline = absl::Now() + kTimeout; absl::Now() < deadline; absl::SleepFor(kPause)) {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) != process_) continue;
    process_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("kilnd ", HowItEnded(status), " when asked to stop\n", LogTail()));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("kilnd did not stop within ", absl::FormatDuration(kTimeout), "\n", LogTail()));
}

std::string ServerProcess::LogTail() const {
  const std::string log = ReadAll(folder_ + "/log");
  return log.size() <= kLogTail ? log : absl::StrCat("[...]", log.substr(log.size() - kLogTail));
}

}  // namespace kiln::demo
