package kiln

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	kilnv1 "kiln/v1"
)

const (
	// What may be unconfirmed before a sender waits; an answer is asked for at a quarter of it.
	mostCommands = 1024
	mostBytes    = 16 << 20
	again        = 50 * time.Millisecond // between two attempts to reconnect
	farewell     = 5 * time.Second
)

// link is the way of a stream's commands to the server. It numbers commands, keeps each until an answer confirms it,
// and when the connection is lost sends what is kept once more on the next; the server runs each number once. So it
// ends only with its session, or when the server has not been there for as long as a lease.
//
// Two goroutines: one reads answers and reconnects, and of each connection one writes.
type link struct {
	client *Client
	token  []byte

	mutex                 sync.Mutex
	changed               *sync.Cond
	call                  kilnv1.KernelService_SubmitClient // nil between two connections
	ended                 *Error
	failure               *Error // the first of a command that nobody waits for
	closing               bool
	last                  uint64 // the last command's number
	seen                  uint64 // all answers up to this one's have come
	kept                  []*kilnv1.SubmitRequest
	unsent                int // of kept, from here on, not sent on this connection
	bytes                 int // of kept
	unasked, unaskedBytes int
	asked                 map[uint64]*pending
	stop                  context.CancelFunc
	done                  chan struct{}
}

func newLink(c *Client) *link {
	ctx, stop := context.WithCancel(context.Background())
	l := &link{client: c, token: c.session.token(), asked: map[uint64]*pending{}, stop: stop, done: make(chan struct{})}
	l.changed = sync.NewCond(&l.mutex)
	go l.run(context.WithValue(ctx, tokenKey{}, l.token))
	return l
}

// send waits only while as much is unconfirmed as may be. Without a future, nobody waits for the answer.
func (l *link) send(ctx context.Context, request *kilnv1.SubmitRequest, future *pending) error {
	defer context.AfterFunc(ctx, l.wake)()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.ended == nil && ctx.Err() == nil && (len(l.kept) >= mostCommands || l.bytes >= mostBytes) {
		l.changed.Wait()
	}
	if l.ended != nil {
		return l.ended
	}
	if ctx.Err() != nil {
		return fromError(ctx.Err())
	}
	size := proto.Size(request)
	l.unasked, l.unaskedBytes = l.unasked+1, l.unaskedBytes+size
	if future != nil || 4*l.unasked > mostCommands || 4*l.unaskedBytes > mostBytes {
		request.Answer, l.unasked, l.unaskedBytes = true, 0, 0
	}
	l.last++
	request.CommandId, request.Acknowledged = l.last, l.seen
	if future != nil {
		l.asked[l.last] = future
	}
	l.kept, l.bytes = append(l.kept, request), l.bytes+size
	l.changed.Broadcast()
	return nil
}

func (l *link) wake() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.changed.Broadcast()
}

// takeFailure is the first failure of a command that nobody waited for, once; those after it are forgotten.
func (l *link) takeFailure() *Error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	failed := l.failure
	l.failure = nil
	return failed
}

// hasEnded says why, or nil.
func (l *link) hasEnded() *Error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.ended
}

// close ends the stream when all that was sent has ended, or soon.
func (l *link) close() {
	l.mutex.Lock()
	l.closing = true
	l.changed.Broadcast()
	l.mutex.Unlock()
	timer := time.AfterFunc(farewell, l.stop)
	defer timer.Stop()
	<-l.done
	l.stop()
}

// -- what comes in

func (l *link) run(ctx context.Context) {
	defer close(l.done)
	var lost time.Time
	for {
		call, failed := l.connect(ctx)
		for failed == nil {
			answer, err := call.Recv()
			if err != nil {
				failed = newError(0, codes.Unavailable, "the stream to %s has ended", l.client.target)
				if !isEnd(err) {
					failed = fromError(err)
				}
				break
			}
			lost = time.Time{}
			l.take(answer)
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		if !l.mayPass(failed) || time.Since(lost) > l.client.session.lease() || !sleep(ctx, again) {
			l.end(failed)
			return
		}
	}
}

// mayPass: a stream that ended so may be taken up again. Nobody has said why, so it is the connection that was lost.
func (l *link) mayPass(failed *Error) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.call = nil
	if l.closing && len(l.kept) == 0 || failed.Code != 0 {
		return false
	}
	switch failed.Status {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled:
		return true
	}
	return false
}

// connect begins a stream, whose writer sends the hello and then all that is kept.
func (l *link) connect(ctx context.Context) (kilnv1.KernelService_SubmitClient, *Error) {
	call, err := l.client.kernels.Submit(ctx)
	if err != nil {
		return nil, fromError(err)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, future := range l.asked {
		future.data = nil // it comes again, from its beginning
	}
	hello := &kilnv1.SubmitHello{ProtocolMin: protocol, ProtocolMax: protocol, SessionToken: l.token}
	first := &kilnv1.SubmitRequest{Acknowledged: l.seen, Command: &kilnv1.SubmitRequest_Hello{Hello: hello}}
	l.call, l.unsent = call, 0
	go l.write(call, first)
	return call, nil
}

// write sends what there is, until the connection is another or there is no more to come.
func (l *link) write(call kilnv1.KernelService_SubmitClient, next *kilnv1.SubmitRequest) {
	for next != nil {
		if call.Send(next) != nil {
			return // the reader learns why
		}
		next = l.next(call)
	}
}

func (l *link) next(call kilnv1.KernelService_SubmitClient) *kilnv1.SubmitRequest {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.call == call && l.ended == nil {
		if l.unsent < len(l.kept) {
			l.unsent++
			return l.kept[l.unsent-1]
		}
		if l.closing {
			_ = call.CloseSend()
			return nil
		}
		l.changed.Wait()
	}
	return nil
}

func (l *link) take(answer *kilnv1.SubmitResponse) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if welcome := answer.GetWelcome(); welcome != nil {
		l.giveUp(welcome.AnswersLost)
		return
	}
	if answer.CommandId <= l.seen { // it comes a second time
		return
	}
	future := l.asked[answer.CommandId]
	if data, is := answer.Event.(*kilnv1.SubmitResponse_Data); is && future != nil {
		future.data = append(future.data, data.Data...)
	}
	if answer.More {
		return
	}
	var failed *Error
	if said := answer.GetFailed(); said != nil {
		failed = ofCommand(said, answer.CommandId)
	}
	if future == nil && failed != nil && l.failure == nil {
		l.failure = failed
	}
	l.confirm(answer.CommandId)
	if future != nil {
		delete(l.asked, answer.CommandId)
		future.set(answer, failed)
	}
}

// confirm: all up to this command have ended.
func (l *link) confirm(command uint64) {
	l.seen = command
	for len(l.kept) > 0 && l.kept[0].CommandId <= command {
		l.bytes -= proto.Size(l.kept[0])
		l.kept[0], l.kept = nil, l.kept[1:]
		l.unsent = max(0, l.unsent-1)
	}
	l.changed.Broadcast()
}

// ofCommand is the failure of a stream's command, with what went wrong first.
func ofCommand(said *kilnv1.CommandFailed, command uint64) *Error {
	var status spb.Status
	if err := proto.Unmarshal(said.Status, &status); err != nil {
		return newError(0, codes.Internal, "a failure that cannot be read: %s", err)
	}
	failed := fromStatus(&status)
	failed.Command = max(said.CauseCommandId, 0)
	if failed.Command == 0 {
		failed.Command = command
	}
	failed.Tag = cmpOr(said.Tag, failed.Tag)
	return failed
}

// giveUp: the answers up to `lost` are no longer all there.
func (l *link) giveUp(lost uint64) {
	for command, future := range l.asked {
		if command <= lost {
			delete(l.asked, command)
			future.set(
				nil,
				newError(
					0,
					codes.Unavailable,
					"the connection to %s was lost with an answer: ask again",
					l.client.target,
				),
			)
		}
	}
}

func (l *link) end(failed *Error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.ended = failed
	for command, future := range l.asked {
		delete(l.asked, command)
		future.set(nil, failed)
	}
	l.changed.Broadcast()
}
