// Collectives over a list of handles. Not served yet.
#ifndef KILN_SERVER_SERVICES_COLLECTIVE_SERVICE_H_
#define KILN_SERVER_SERVICES_COLLECTIVE_SERVICE_H_

#include "kiln/v1/collective_service.grpc.pb.h"
#include "server/services/unimplemented.h"

namespace kiln::server {

class CollectiveServiceImpl final : public v1::CollectiveService::CallbackService {
  KILN_UNIMPLEMENTED_UNARY(CollectiveService, Broadcast, v1::CollectiveRequest, v1::CollectiveResponse)
  KILN_UNIMPLEMENTED_UNARY(CollectiveService, Scatter, v1::CollectiveRequest, v1::CollectiveResponse)
  KILN_UNIMPLEMENTED_UNARY(CollectiveService, Gather, v1::CollectiveRequest, v1::CollectiveResponse)
  KILN_UNIMPLEMENTED_UNARY(CollectiveService, Reduce, v1::CollectiveRequest, v1::CollectiveResponse)
  KILN_UNIMPLEMENTED_UNARY(CollectiveService, AllGather, v1::CollectiveRequest, v1::CollectiveResponse)
  KILN_UNIMPLEMENTED_UNARY(CollectiveService, ReduceScatter, v1::CollectiveRequest, v1::CollectiveResponse)
  KILN_UNIMPLEMENTED_UNARY(CollectiveService, AllReduce, v1::CollectiveRequest, v1::CollectiveResponse)
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_COLLECTIVE_SERVICE_H_
