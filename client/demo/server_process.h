// A kilnd of one's own, on a port that was free.
#ifndef KILN_CLIENT_DEMO_SERVER_PROCESS_H_
#define KILN_CLIENT_DEMO_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kiln::demo {

// Killed when it goes, if it was not stopped before.
class ServerProcess {
 public:
  // Runs the kilnd at `path` on loopback, with these flags, and waits until it listens.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const std::string& path,
                                                              const std::vector<std::string>& flags = {});
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // host:port
  const std::string& address() const { return address_; }

  // Asks it to stop (SIGTERM) and waits; an error unless it exits with 0. What it
  // logged is part of the error's text.
  absl::Status Stop();

 private:
  ServerProcess(pid_t process, std::string folder) : process_(process), folder_(std::move(folder)) {}
  // Waits for the port file, while the process lives.
  absl::Status WaitForPort();
  // The end of what it logged.
  std::string LogTail() const;

  pid_t process_;
  // Holds the port file and the log; removed at the end.
  std::string folder_;
  std::string address_;
};

}  // namespace kiln::demo

#endif  // KILN_CLIENT_DEMO_SERVER_PROCESS_H_
