// What the server tells on its error output: one event a line, written as key=value throughout our sources,
//
//   time=2026-11-29T12:00:00.000Z level=info event=serving listen=127.0.0.1:0 port=40112
//
// or, for collectors of logs, the same as JSON. gRPC's own lines are events of the same log.
#ifndef KILN_SERVER_LOGS_SERVER_LOG_H_
#define KILN_SERVER_LOGS_SERVER_LOG_H_

#include <spdlog/fwd.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln::server {

// `level` is one of spdlog's names; `format` is "text" or "json". From now on gRPC's lines go to the last log that was
// made here.
std::shared_ptr<spdlog::logger> MakeServerLog(const std::string& level, absl::string_view format);

// One event as a line of JSON, with its end. A value in quotation marks is a text, and so is a hash of a graph; else
// what looks like a number, true or false is one. Words that are no key=value are the field "message".
std::string EventAsJson(absl::Time time, absl::string_view level, absl::string_view event);

}  // namespace kiln::server

#endif  // KILN_SERVER_LOGS_SERVER_LOG_H_
