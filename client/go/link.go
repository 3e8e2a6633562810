package kiln

import (
	"bytes"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

const (
	// What may be unconfirmed before a sender waits; an answer is asked for at a quarter of it.
	mostCommands = 1024
	mostBytes    = 16 << 20
	// Between two attempts to reconnect: at first, and at most.
	again     = 50 * time.Millisecond
	mostAgain = 2 * time.Second
	farewell  = 5 * time.Second
	// A piece of data is at most 1 MiB.
	mostAnswer = 4 << 20
)

// link is the way of a stream's commands to the server. It numbers commands, keeps each until an answer confirms it,
// and when the connection is lost sends what is kept once more on the next; the server runs each number once. The same
// when the caller's token counts no more and the token's file has another. Else it ends, as it does with its session,
// or when the server has not been there for as long as a lease.
//
// Two goroutines: one reads answers and reconnects, and of each connection one writes.
type link struct {
	client *Client
	token  []byte // of the session
	shown  string // of the client: the bearer's, of the connection; for the reader alone

	mutex                 sync.Mutex
	changed               *sync.Cond
	call                  kilnv1.KernelService_SubmitClient // nil between two connections
	ended                 *Error
	failure               *Error // the first of a command that nobody waits for
	closing               bool
	last                  uint64 // the last command's number
	seen                  uint64 // all answers up to this one's have come
	kept                  []sent
	unsent                int // of kept, from here on, not sent on this connection
	bytes                 int // of kept
	unasked, unaskedBytes int
	asked                 map[uint64]*pending
	stop                  context.CancelFunc
	done                  chan struct{}
}

// sent is a command, and its size as it goes out.
type sent struct {
	request *kilnv1.SubmitRequest
	bytes   int
}

// newLink: `before` is the one that has ended, or nil. Under one session commands are numbered on, for the server
// passes over those whose numbers it had.
func newLink(c *Client, before *link) *link {
	ctx, stop := context.WithCancel(context.Background())
	l := &link{client: c, token: c.session.token(), asked: map[uint64]*pending{}, stop: stop, done: make(chan struct{})}
	if before != nil && bytes.Equal(l.token, before.token) {
		l.last, l.seen, l.failure = before.last, before.last, before.takeFailure()
	}
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
	l.put(request, future)
	return nil
}

// put numbers a command and keeps it for the writer.
func (l *link) put(request *kilnv1.SubmitRequest, future *pending) {
	l.last++
	request.CommandId, request.Acknowledged = l.last, l.seen
	size := proto.Size(request)
	l.unasked, l.unaskedBytes = l.unasked+1, l.unaskedBytes+size
	if future != nil || 4*l.unasked > mostCommands || 4*l.unaskedBytes > mostBytes {
		request.Answer, l.unasked, l.unaskedBytes = true, 0, 0
	}
	if future != nil {
		l.asked[l.last] = future
	}
	l.kept, l.bytes = append(l.kept, sent{request, size}), l.bytes+size
	l.changed.Broadcast()
}

func fence() *kilnv1.SubmitRequest {
	return &kilnv1.SubmitRequest{Command: &kilnv1.SubmitRequest_Fence{Fence: &kilnv1.FenceCommand{}}}
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

func (l *link) answered() uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.seen
}

// hasEnded says why, or nil.
func (l *link) hasEnded() *Error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.ended
}

// close ends the stream when all that was sent has ended, which a fence tells, or soon.
func (l *link) close() {
	l.mutex.Lock()
	if len(l.kept) > 0 && !l.closing {
		l.put(fence(), newPending(0))
	}
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
	var lost time.Time // the first of the connections since which nothing has gone on
	seen, pause := l.answered(), again
	for {
		var welcomed time.Time
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
			if answer.GetWelcome() != nil {
				welcomed = time.Now()
			}
			failed = l.take(answer)
		}
		stood := !welcomed.IsZero() && time.Since(welcomed) > l.client.session.lease()/3
		if now := l.answered(); lost.IsZero() || stood || now > seen {
			lost, seen, pause = time.Now(), now, again
		}
		if !l.mayPass(failed) || time.Since(lost) > l.client.session.lease() || !sleep(ctx, pause) {
			l.end(failed)
			return
		}
		pause = min(2*pause, mostAgain)
	}
}

// mayPass: a stream that ended so may be taken up again. Nobody has said why, so it is the connection that was lost; or
// a token counts no more, in place of which there is another by now.
func (l *link) mayPass(failed *Error) bool {
	if l.leave() {
		return false
	}
	if failed.Code == kilnv1.ErrorCode_NOT_AUTHENTICATED {
		return l.client.who.newest() != l.shown
	}
	if failed.Code != 0 {
		return false
	}
	switch failed.Status {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled:
		return true
	}
	return false
}

// leave is done with a connection that has ended, and says whether there is nothing more to do.
func (l *link) leave() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.call = nil
	return l.closing && len(l.kept) == 0
}

// connect begins a stream, whose writer sends the hello and then all that is kept.
func (l *link) connect(ctx context.Context) (kilnv1.KernelService_SubmitClient, *Error) {
	l.shown = l.client.who.bearer()
	call, err := l.client.kernels.Submit(ctx, grpc.MaxCallRecvMsgSize(mostAnswer))
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
			return l.kept[l.unsent-1].request
		}
		if l.closing {
			_ = call.CloseSend()
			return nil
		}
		l.changed.Wait()
	}
	return nil
}

// end tells who waits. Where nobody does, the next Fence under this session tells that commands may be lost.
func (l *link) end(failed *Error) {
	l.stop()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.asked) == 0 && len(l.kept) > 0 && l.failure == nil {
		l.failure = failed
	}
	l.ended = failed
	for command, future := range l.asked {
		delete(l.asked, command)
		future.set(nil, failed)
	}
	l.kept, l.bytes = nil, 0
	l.changed.Broadcast()
}
