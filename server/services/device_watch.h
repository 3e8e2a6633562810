// DeviceService.Watch: the state of the devices, as it changes.
//
// One thread looks at all devices for all watchers, a few times a second and only
// while there are any. A watcher that reads slowly gets the latest state of each
// device and no history, so what it costs is bounded.
#ifndef KILN_SERVER_SERVICES_DEVICE_WATCH_H_
#define KILN_SERVER_SERVICES_DEVICE_WATCH_H_

#include <grpcpp/grpcpp.h>

#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "kiln/v1/device_service.pb.h"
#include "server/services/admission.h"
#include "server/services/call.h"

namespace kiln::server {

// Of all clients together.
inline constexpr size_t kMaxWatchers = 256;

// Leaves out of what a device says of others those that do not exist for who asks.
void HidePeers(const TenantRules* rules, v1::Device& device);

// Safe from any thread. Destroyed when no call is left.
class DeviceWatch {
 public:
  // Both outlive this.
  DeviceWatch(const Engine& engine, const Gate& gate);
  ~DeviceWatch();

  // A stream that begins with the state of every device. It ends when the client goes
  // or the server stops (SHUTTING_DOWN). One too many: OUT_OF_MEMORY, limit "watchers".
  Revocable<grpc::ServerWriteReactor<grpc::ByteBuffer>>* Start(Admitted admitted, const grpc::ByteBuffer& request);

 private:
  class Watcher;

  // Whether `watcher` is one of them from now on, until Remove.
  bool Add(Watcher* watcher);
  void Remove(Watcher* watcher);
  std::vector<v1::Device> Look() const;
  void LookUntilStopped();

  const Engine& engine_;
  const Gate& gate_;
  absl::Mutex mutex_;
  Bell bell_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_DEVICE_WATCH_H_
