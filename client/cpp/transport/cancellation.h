// A call that its caller gives up.
//
// A call blocks its thread, so whoever gives it up is another one. It ends at the server, too, which stops what runs
// for nobody; how far it had come is not known.
#ifndef KILN_CLIENT_CPP_TRANSPORT_CANCELLATION_H_
#define KILN_CLIENT_CPP_TRANSPORT_CANCELLATION_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace kiln::client {

// Of any number of calls, once. Safe from any thread; outlives the calls that were given it.
class Cancellation {
 public:
  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Calls that are under way end with CANCELLED, and those that begin later do so at once.
  void Cancel();

  // For calls themselves, of which `of` may be null: none is given up.
  class Scope {
   public:
    Scope(Cancellation* of, grpc::ClientContext& call);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Cancellation* const of_;
    grpc::ClientContext& call_;
  };
  // False if it was cancelled before the time was over.
  static bool Sleep(Cancellation* of, absl::Duration time);

 private:
  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_CANCELLATION_H_
