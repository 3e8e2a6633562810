// BufferService: device memory by handle. The two streams, Write and Read, are
// in transfer.h.
#ifndef KILN_SERVER_SERVICES_BUFFER_SERVICE_H_
#define KILN_SERVER_SERVICES_BUFFER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "kiln/v1/buffer_service.grpc.pb.h"
#include "server/services/env.h"

namespace kiln::server {

using BufferServiceBase =
    v1::BufferService::WithRawCallbackMethod_Allocate<v1::BufferService::WithRawCallbackMethod_Write<
        v1::BufferService::WithRawCallbackMethod_Read<v1::BufferService::WithRawCallbackMethod_Copy<
            v1::BufferService::WithRawCallbackMethod_Fill<v1::BufferService::WithRawCallbackMethod_View<
                v1::BufferService::WithRawCallbackMethod_Free<v1::BufferService::WithRawCallbackMethod_Describe<
                    v1::BufferService::WithRawCallbackMethod_MapSharedMemory<
                        v1::BufferService::WithRawCallbackMethod_ListTensors<
                            v1::BufferService::WithRawCallbackMethod_Load<v1::BufferService::Service>>>>>>>>>>>;

class BufferServiceImpl final : public BufferServiceBase {
 public:
  explicit BufferServiceImpl(const ServiceEnv& env) : env_(env) {}

  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* Write(grpc::CallbackServerContext* context,
                                                   grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Read(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Copy(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Fill(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* View(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Free(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListTensors(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Load(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* MapSharedMemory(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;

 private:
  const ServiceEnv env_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_BUFFER_SERVICE_H_
