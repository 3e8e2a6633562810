// A call that has ended, as a row of the state. Tested by state_test.
#ifndef KILN_SERVER_STATE_CALL_ROW_H_
#define KILN_SERVER_STATE_CALL_ROW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kiln/v1/state.pb.h"
#include "server/trace/traces.h"

namespace kiln::server {

void FillCall(const CallRecord& record, absl::string_view method, std::string tenant, absl::Time now,
              v1::StateResponse::Call& row);

}  // namespace kiln::server

#endif  // KILN_SERVER_STATE_CALL_ROW_H_
