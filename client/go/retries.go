package kiln

import (
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	kilnv1 "kiln/v1"
	"kiln/v1/inference"
)

// Which failed calls are made again, and when. A server that is asked for too much refuses at once, and says when to
// come again. If all its clients came at that moment, or as often as they like, the tries would be a load of their own.
// So a client waits a little longer than it was told, by chance, and has a budget: for ten calls it may make one again,
// and a few at first. Never made again is what may have had an effect, unless it would have the same once more.
const (
	attempts   = 3 // of one call, the first among them
	firstWait  = 50 * time.Millisecond
	mostWait   = 2 * time.Second // who is told to wait longer hears of it instead
	perCall    = 0.1             // tries that a call earns
	mostBudget = 10.0            // that are saved up; they are there at first
)

// What looks, and what finds a second time what it made the first.
var idempotent = map[string]bool{
	kilnv1.BufferService_Describe_FullMethodName:       true,
	kilnv1.BufferService_ListTensors_FullMethodName:    true,
	kilnv1.DebugService_Explain_FullMethodName:         true,
	kilnv1.DebugService_ListPrograms_FullMethodName:    true,
	kilnv1.DebugService_Trace_FullMethodName:           true,
	kilnv1.DeviceService_Describe_FullMethodName:       true,
	kilnv1.DeviceService_List_FullMethodName:           true,
	kilnv1.KernelService_Compile_FullMethodName:        true,
	kilnv1.KernelService_Gradient_FullMethodName:       true,
	kilnv1.KernelService_RecordSequence_FullMethodName: true,
	kilnv1.SessionService_Renew_FullMethodName:         true,
	kilnv1.SessionService_Usage_FullMethodName:         true,

	inference.GRPCInferenceService_ModelConfig_FullMethodName:     true,
	inference.GRPCInferenceService_ModelMetadata_FullMethodName:   true,
	inference.GRPCInferenceService_ModelReady_FullMethodName:      true,
	inference.GRPCInferenceService_ModelStatistics_FullMethodName: true,
	inference.GRPCInferenceService_RepositoryIndex_FullMethodName: true,
	inference.GRPCInferenceService_ServerLive_FullMethodName:      true,
	inference.GRPCInferenceService_ServerMetadata_FullMethodName:  true,
	inference.GRPCInferenceService_ServerReady_FullMethodName:     true,
}

// ofSequence says whether a request is a step of a sequence, which is never made again: it may have moved on.
func ofSequence(request any) bool {
	asked, is := request.(*inference.ModelInferRequest)
	return is && asked.GetParameters()[sequenceID] != nil
}

type retries struct {
	mutex  sync.Mutex
	budget float64
}

// earn: a call begins.
func (r *retries) earn() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.budget = min(mostBudget, r.budget+perCall)
}

// wait says how long to wait before a call is made again whose attempt-th attempt, from 1 on, failed so; false: it is
// not. It takes from the budget.
func (r *retries) wait(method string, failed *Error, attempt int, deadline time.Time) (time.Duration, bool) {
	asked, may := mayRetry(method, failed)
	if !may || attempt >= attempts || asked > mostWait {
		return 0, false
	}
	pause := asked + time.Duration(rand.Float64()*float64(asked)/2)
	if asked == 0 {
		pause = time.Duration(rand.Float64() * float64(min(mostWait, firstWait<<(attempt-1))))
	}
	if !deadline.IsZero() && time.Until(deadline) <= pause {
		return 0, false
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.budget < 1 {
		return 0, false
	}
	r.budget--
	return pause, true
}

// mayRetry gives what the server asks for, 0 where it says no time; false: the call may have begun, or will not end
// otherwise.
func mayRetry(method string, failed *Error) (time.Duration, bool) {
	switch {
	case failed.Status == codes.ResourceExhausted:
		return failed.RetryAfter, failed.RetryAfter > 0
	case failed.Status != codes.Unavailable:
		return 0, false
	case failed.Code == kilnv1.ErrorCode_SHUTTING_DOWN:
		return 0, true // it has not begun; another server may follow at the address
	default:
		return 0, failed.Code == 0 && idempotent[method]
	}
}
