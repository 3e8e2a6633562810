#include "tests/e2e/kilnd_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

std::string KilndPath() { return absl::StrCat(std::getenv("TEST_SRCDIR"), "/kiln/server/kilnd"); }

Kilnd::Kilnd(std::vector<std::string> flags, const std::string& output) {
  flags.insert(flags.begin(), KilndPath());
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    setenv("KILN_GPUS", "none", 1);  // unless a flag says otherwise
    execv(argv[0], argv.data());
    _exit(127);
  }
}

Kilnd::~Kilnd() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Kilnd::Signal(int number) const { kill(pid_, number); }

int Kilnd::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ServingKilnd Serve(std::vector<std::string> flags, const std::string& files) {
  const std::string port_file = files + ".port";
  unlink(port_file.c_str());
  flags.push_back("--listen=127.0.0.1:0");
  flags.push_back("--port_file=" + port_file);
  ServingKilnd serving;
  serving.process = std::make_unique<Kilnd>(flags, files + ".log");
  int port = 0;
  EXPECT_TRUE(Eventually([&] { return static_cast<bool>(std::ifstream(port_file) >> port); }));
  serving.address = absl::StrCat("127.0.0.1:", port);
  return serving;
}

}  // namespace kiln::e2e
