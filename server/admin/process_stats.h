// What the system says of this process. Tested by admin_test.
#ifndef KILN_SERVER_ADMIN_PROCESS_STATS_H_
#define KILN_SERVER_ADMIN_PROCESS_STATS_H_

namespace kiln::server {

// As Prometheus' clients of other languages count it. What cannot be had is 0.
struct ProcessStats {
  double cpu_seconds = 0;  // user and system
  double resident_bytes = 0;
  double virtual_bytes = 0;
  double threads = 0;
  double open_fds = 0;
  double max_fds = 0;
  double start_seconds = 0;  // since 1970
};
ProcessStats ReadProcessStats();

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_PROCESS_STATS_H_
