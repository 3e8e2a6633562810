#include "server/admin/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace kiln::server {
namespace {

std::string ContentsOf(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// When the machine was started, in seconds since 1970.
double BootSeconds() {
  std::istringstream lines(ContentsOf("/proc/stat"));
  for (std::string word; lines >> word;) {
    if (word != "btime") continue;
    double seconds = 0;
    lines >> seconds;
    return seconds;
  }
  return 0;
}

double OpenDescriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  double count = 0;
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  return count - 1;  // the folder's own
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  // The second field is the program's name, which may hold anything; proc(5) numbers those behind it from 3 on.
  const std::string line = ContentsOf("/proc/self/stat");
  const size_t name_end = line.rfind(')');
  if (name_end != std::string::npos) {
    std::istringstream fields(line.substr(name_end + 1));
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    char state = 0;
    fields >> state;
    double value = 0;
    for (int number = 4; number <= 24 && fields >> value; ++number) {
      switch (number) {
        case 14:
        case 15: stats.cpu_seconds += value / ticks; break;
        case 20: stats.threads = value; break;
        case 22: stats.start_seconds = BootSeconds() + value / ticks; break;
        case 23: stats.virtual_bytes = value; break;
        case 24: stats.resident_bytes = value * static_cast<double>(sysconf(_SC_PAGESIZE)); break;
        default: break;
      }
    }
  }
  stats.open_fds = OpenDescriptors();
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = static_cast<double>(limit.rlim_cur);
  return stats;
}

}  // namespace kiln::server
