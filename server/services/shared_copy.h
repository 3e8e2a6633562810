// BufferService.Copy where one side is memory that a client shares: uploads and
// downloads of which no byte passes a socket.
#ifndef KILN_SERVER_SERVICES_SHARED_COPY_H_
#define KILN_SERVER_SERVICES_SHARED_COPY_H_

#include "kiln/v1/buffer_service.pb.h"
#include "runtime/hal/queue.h"
#include "server/engine/memory/session.h"
#include "server/engine/programs/program_store.h"
#include "server/services/env.h"

namespace kiln::server {

// Copies in pieces, each an entry of the device's queue, so that small work of others
// finds its turn in between. `request` is not needed afterwards. Through `done`:
//   BAD_ARGUMENT      two sides that are shared, or two ways to say one side
//   NOT_IMPLEMENTED   this server shares no memory
// what Buffers::Resolve and SharedRegions::Find say, and what `control` asks for between
// two pieces.
void CopyShared(const ServiceEnv& env, const v1::CopyRequest& request, const Session* caller, const Control& control,
                runtime::hal::DoneCallback done);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_SHARED_COPY_H_
