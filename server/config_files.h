// The files and folders that settings name: whether they are there, and may be used as they must be.
//
// A server that starts finds out itself, one after the other and some of it late; `kilnd --check_config` asks here.
#ifndef KILN_SERVER_CONFIG_FILES_H_
#define KILN_SERVER_CONFIG_FILES_H_

#include "absl/status/status.h"
#include "kiln/v1/config.pb.h"

namespace kiln::server {

// BAD_ARGUMENT that names the first setting that would not do, and why. Makes and opens nothing. It asks as this
// process's user: run it as the server's.
absl::Status CheckFiles(const v1::ServerConfig& config);

}  // namespace kiln::server

#endif  // KILN_SERVER_CONFIG_FILES_H_
