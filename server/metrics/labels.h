// What tells the series of a metric apart, and how many values each label can have at most.
//
// A label's values are numbers, so that counting compares no text. CLOSED labels are lists of this
// file: all there can ever be. OPEN ones get their names at a scrape (OpenNames): they are numbers
// of what the server itself has, RPCs, devices, the tenants of its file and the models of its folder. What a client
// chooses is never a value of a label, so no client can make series.
#ifndef KILN_SERVER_METRICS_LABELS_H_
#define KILN_SERVER_METRICS_LABELS_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/account.h"

// Of gRPC, in the order of their codes.
#define KILN_GRPC_STATUSES(VALUE)                   \
  VALUE(kOk, "OK")                                  \
  VALUE(kCancelled, "CANCELLED")                    \
  VALUE(kUnknown, "UNKNOWN")                        \
  VALUE(kInvalidArgument, "INVALID_ARGUMENT")       \
  VALUE(kDeadlineExceeded, "DEADLINE_EXCEEDED")     \
  VALUE(kNotFound, "NOT_FOUND")                     \
  VALUE(kAlreadyExists, "ALREADY_EXISTS")           \
  VALUE(kPermissionDenied, "PERMISSION_DENIED")     \
  VALUE(kResourceExhausted, "RESOURCE_EXHAUSTED")   \
  VALUE(kFailedPrecondition, "FAILED_PRECONDITION") \
  VALUE(kAborted, "ABORTED")                        \
  VALUE(kOutOfRange, "OUT_OF_RANGE")                \
  VALUE(kUnimplemented, "UNIMPLEMENTED")            \
  VALUE(kInternal, "INTERNAL")                      \
  VALUE(kUnavailable, "UNAVAILABLE")                \
  VALUE(kDataLoss, "DATA_LOSS")                     \
  VALUE(kUnauthenticated, "UNAUTHENTICATED")

// Of an Execute or a replay (kiln.v1.Timing has the same).
#define KILN_PHASES(VALUE)   \
  VALUE(kDecode, "decode")   \
  VALUE(kVerify, "verify")   \
  VALUE(kCache, "cache")     \
  VALUE(kCompile, "compile") \
  VALUE(kH2d, "h2d")         \
  VALUE(kQueue, "queue")     \
  VALUE(kDevice, "device")   \
  VALUE(kD2h, "d2h")         \
  VALUE(kEncode, "encode")

// How a program was looked for: spared a compilation or not, and why.
#define KILN_CACHE_RESULTS(VALUE) \
  VALUE(kHit, "hit")              \
  VALUE(kMiss, "miss")
#define KILN_CACHE_REASONS(VALUE)                                                                       \
  VALUE(kMemory, "memory")        /* a hit: it was there */                                             \
  VALUE(kLoaded, "loaded")        /* a hit: compiled before, for another device or by another server */ \
  VALUE(kCompiled, "compiled")    /* a miss that made it */                                             \
  VALUE(kJoined, "joined")        /* a miss that waited for another's compilation */                    \
  VALUE(kNeedGraph, "need_graph") /* a miss by hash alone */                                            \
  VALUE(kFailed, "failed")        /* a miss that got no program */

#define KILN_COMPILE_ENDS(VALUE)                                     \
  VALUE(kOk, "ok")                                                   \
  VALUE(kRefused, "refused")     /* the graph's fault */             \
  VALUE(kCancelled, "cancelled") /* nobody waited for it any more */ \
  VALUE(kDeadline, "deadline")                                       \
  VALUE(kFault, "fault") /* ours */

// Why a compile worker is no more.
#define KILN_WORKER_EXITS(VALUE)                                                       \
  VALUE(kCrashed, "crashed")     /* ended before it was done */                        \
  VALUE(kNonsense, "nonsense")   /* killed: gave an answer that is none */             \
  VALUE(kCancelled, "cancelled") /* killed: its caller has gone */                     \
  VALUE(kDeadline, "deadline")   /* killed: its caller waits no longer */              \
  VALUE(kTooLong, "too_long")    /* killed: --compile_limits_max_seconds */            \
  VALUE(kRecycled, "recycled")   /* killed: it has done its jobs, or grown large */    \
  VALUE(kZygote, "zygote")       /* died with the process that they are born of */     \
  VALUE(kNoMemory, "no_memory")  /* killed: --compile_limits_max_total_memory_bytes */ \
  VALUE(kIdle, "idle")           /* killed: nothing to do for a while */               \
  VALUE(kMadeRoom, "made_room")  /* killed: another is to wait in its place */

#define KILN_DIRECTIONS(VALUE)                                        \
  VALUE(kReceived, "received") /* messages */                         \
  VALUE(kSent, "sent")                                                \
  VALUE(kFromShared, "from_shared_memory") /* Copies, not messages */ \
  VALUE(kToShared, "to_shared_memory")

// Where a request was when it was found that nobody waits for it.
#define KILN_PLACES(VALUE)                                              \
  VALUE(kDecode, "decode")   /* before anything was done */             \
  VALUE(kCompile, "compile") /* being looked for, loaded or compiled */ \
  VALUE(kQueue, "queue")     /* before its run began */                 \
  VALUE(kDevice, "device")   /* in its run */                           \
  VALUE(kAnswer, "answer")   /* when all was done */

// What became of records that were to be exported.
#define KILN_EXPORT_ENDS(VALUE)                                                         \
  VALUE(kSent, "sent")                                                                  \
  VALUE(kPushedOut, "pushed_out") /* by newer ones of the tenant, as too many waited */ \
  VALUE(kRefused, "refused")      /* by the collector, and not for now alone */         \
  VALUE(kGaveUp, "gave_up")       /* tried often enough */

#define KILN_MEMORY_KINDS(VALUE)                              \
  VALUE(kInUse, "in_use")                                     \
  VALUE(kCached, "cached") /* freed, and kept for the next */ \
  VALUE(kPeak, "peak")     /* the most that was in use */     \
  VALUE(kLimit, "limit")

// Of a tenant's part of a device.
#define KILN_TENANT_MEMORY_KINDS(VALUE)                        \
  VALUE(kInUse, "in_use")                                      \
  VALUE(kScratch, "scratch")       /* between kernels, kept */ \
  VALUE(kGuaranteed, "guaranteed") /* nobody else takes it */

// Limits that a request can be refused for, beside the quotas (base/quotas.def): as
// ErrorDetail.limit names them. One that is in neither list counts as "other".
#define KILN_LIMITS(VALUE)                                             \
  VALUE(kOther, "other")                                               \
  VALUE(kNodes, "nodes")                                               \
  VALUE(kBytes, "bytes")                                               \
  VALUE(kRunSeconds, "seconds of one run")                             \
  VALUE(kCompileTime, "compile seconds")                               \
  VALUE(kDeviceMemory, "device memory bytes")                          \
  VALUE(kResultBytes, "inline result bytes")                           \
  VALUE(kSessionsOfAddress, "sessions of one address")                 \
  VALUE(kSharedRegions, "shared memory regions")                       \
  VALUE(kSharedBytes, "shared memory bytes")                           \
  VALUE(kMeeting, "milliseconds to wait for a participant")            \
  VALUE(kGuaranteed, "guaranteed_device_bytes")                        \
  VALUE(kWaiting, "entries waiting for a device")                      \
  VALUE(kCallersWaiting, "waiting requests of a caller")               \
  VALUE(kCallersWaitingBytes, "bytes of waiting requests of a caller") \
  VALUE(kWaitingRequests, "waiting requests")                          \
  VALUE(kWaitingBytes, "bytes of waiting requests")

namespace kiln::server {

// Of open labels: by number. What is beyond has no name, and is not shown.
struct OpenNames {
  std::vector<std::string> methods, devices, tenants, versions, builds, models, model_versions;
};

// For each label: what it is called, how many values it can have at most, and theirs.
template <typename Label>
struct LabelOf;

template <typename Label>
size_t NumberOf(Label value) {
  return static_cast<size_t>(value);
}

#define KILN_VALUE_ID(id, name) id,
#define KILN_VALUE_NAME(id, name) name,
#define KILN_CLOSED_LABEL(Type, label, VALUES)                                            \
  enum class Type : unsigned char { VALUES(KILN_VALUE_ID) };                              \
  template <>                                                                             \
  struct LabelOf<Type> {                                                                  \
    static constexpr const char* kName = label;                                           \
    static constexpr bool kClosed = true;                                                 \
    static constexpr const char* kNames[] = {VALUES(KILN_VALUE_NAME)};                    \
    static constexpr size_t kMost = sizeof(kNames) / sizeof(kNames[0]);                   \
    static const char* NameOf(size_t number, const OpenNames&) { return kNames[number]; } \
  };

KILN_CLOSED_LABEL(GrpcStatus, "grpc_status", KILN_GRPC_STATUSES)
KILN_CLOSED_LABEL(Phase, "phase", KILN_PHASES)
KILN_CLOSED_LABEL(CacheResult, "result", KILN_CACHE_RESULTS)
KILN_CLOSED_LABEL(CacheReason, "reason", KILN_CACHE_REASONS)
KILN_CLOSED_LABEL(CompileEnd, "result", KILN_COMPILE_ENDS)
KILN_CLOSED_LABEL(WorkerExit, "cause", KILN_WORKER_EXITS)
KILN_CLOSED_LABEL(Direction, "direction", KILN_DIRECTIONS)
KILN_CLOSED_LABEL(Place, "where", KILN_PLACES)
KILN_CLOSED_LABEL(ExportEnd, "result", KILN_EXPORT_ENDS)
KILN_CLOSED_LABEL(MemoryKind, "kind", KILN_MEMORY_KINDS)

KILN_CLOSED_LABEL(TenantMemoryKind, "kind", KILN_TENANT_MEMORY_KINDS)

enum class Limit : unsigned char {
  KILN_LIMITS(KILN_VALUE_ID)
#define HELD(Name, field, retry_ms, advice) Name,
#define RATE(Name, field, window, advice) Name,
#define EACH(Name, field, advice) Name,
#include "base/quotas.def"
#undef HELD
#undef RATE
#undef EACH
};
template <>
struct LabelOf<Limit> {
  static constexpr const char* kName = "limit";
  static constexpr bool kClosed = true;
  static constexpr const char* kNames[] = {KILN_LIMITS(KILN_VALUE_NAME)
#define HELD(Name, field, retry_ms, advice) #field,
#define RATE(Name, field, window, advice) #field,
#define EACH(Name, field, advice) #field,
#include "base/quotas.def"
#undef HELD
#undef RATE
#undef EACH
  };
  static constexpr size_t kMost = sizeof(kNames) / sizeof(kNames[0]);
  static const char* NameOf(size_t number, const OpenNames&) { return kNames[number]; }
};

template <>
struct LabelOf<Quota> {
  static constexpr const char* kName = "quota";
  static constexpr bool kClosed = true;
  static constexpr size_t kMost = kQuotas;
  static const char* NameOf(size_t number, const OpenNames&) { return QuotaName(static_cast<Quota>(number)).data(); }
};

// An open label's number; one that is too large is the last, which has the name "other" or none.
#define KILN_OPEN_LABEL(Type, label, most, names)                                         \
  struct Type {                                                                           \
    size_t number = 0;                                                                    \
  };                                                                                      \
  inline size_t NumberOf(Type value) { return std::min<size_t>(value.number, most - 1); } \
  template <>                                                                             \
  struct LabelOf<Type> {                                                                  \
    static constexpr const char* kName = label;                                           \
    static constexpr bool kClosed = false;                                                \
    static constexpr size_t kMost = most;                                                 \
    static const char* NameOf(size_t number, const OpenNames& open) {                     \
      return number < open.names.size() ? open.names[number].c_str() : nullptr;           \
    }                                                                                     \
  };

// A row of server/services/rpcs.h.
KILN_OPEN_LABEL(Method, "grpc_method", 64, methods)
// By its place among the engine's.
KILN_OPEN_LABEL(DeviceNumber, "device", 65, devices)
// "" for nobody, then "other", then tenants of the file in the order in which they were first read.
KILN_OPEN_LABEL(TenantNumber, "tenant", Accounts::kNumbered + 2, tenants)

// Of the versions of models that are loaded: both by the place of one among them.
KILN_OPEN_LABEL(ModelNumber, "model", 1024, models)
KILN_OPEN_LABEL(ModelVersion, "version", 1024, model_versions)

// Of this server: each has one value.
KILN_OPEN_LABEL(Version, "version", 1, versions)
KILN_OPEN_LABEL(Build, "build", 1, builds)

inline TenantNumber TenantOf(const Account* account) {
  if (account == nullptr) return {0};
  return {account->number() < Accounts::kNumbered ? account->number() + 2 : 1};
}

}  // namespace kiln::server

#endif  // KILN_SERVER_METRICS_LABELS_H_
