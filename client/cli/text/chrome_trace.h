// Recent calls and runs in Chrome's trace format, which Perfetto draws.
#ifndef KILN_CLIENT_CLI_TEXT_CHROME_TRACE_H_
#define KILN_CLIENT_CLI_TEXT_CHROME_TRACE_H_

#include <string>

#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {

// JSON. Calls that overlap stand on lines of their own, as few as will do, each with its parts below it;
// each device has a line of its runs, and one of its kernels if there are any. Times count from the first event.
std::string ChromeTrace(const v1::TraceResponse& trace);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_CHROME_TRACE_H_
