package kiln

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"kiln/internal/wire"
	"kiln/v1/inference"
)

// ModelStream is a call that has many requests for a model, without waiting for the answer of one before the next is
// sent. The server runs them one after the other: those that are to run together are calls of Infer. One that fails is
// told so, and the others go on. When the connection is lost, what was not answered has failed: unlike a Stream of
// commands, it does not begin again by itself.
//
// Two goroutines: one reads answers, and one writes. Both end with Close, with the context that the stream was begun
// with, and with the client.
type ModelStream struct {
	model *Model
	stop  context.CancelFunc
	done  chan struct{}

	mutex   sync.Mutex
	changed *sync.Cond
	sent    uint64          // how many requests there were
	queued  [][]byte        // those that are not written yet
	waiting []*FutureArrays // in the order of their requests
	bytes   int             // of their requests
	before  string          // the id of the last that was answered
	closing bool
	ended   *Error
}

// FutureArrays are a request's outputs, which are on their way.
type FutureArrays struct {
	request *inference.ModelInferRequest // without its arrays
	bytes   int
	ready   chan struct{}
	arrays  map[string]Array
	failed  error
}

// Wait gives the outputs, by name, when they are there. A failure that the server found in this request has its text
// alone: in a stream it gives no more.
func (f *FutureArrays) Wait(ctx context.Context) (map[string]Array, error) {
	select {
	case <-f.ready:
		return f.arrays, f.failed
	case <-ctx.Done():
		return nil, fromError(ctx.Err())
	}
}

func (f *FutureArrays) set(arrays map[string]Array, failed error) {
	f.arrays, f.failed = arrays, failed
	close(f.ready)
}

// Stream begins a call with many requests. Its deadline and its end are the context's.
func (m *Model) Stream(ctx context.Context) (*ModelStream, error) {
	ctx, stop := context.WithCancel(ctx)
	call, err := m.client.models.ModelStreamInfer(ctx, grpc.ForceCodecV2(wire.Codec))
	if err != nil {
		stop()
		return nil, err
	}
	s := &ModelStream{model: m, stop: stop, done: make(chan struct{})}
	s.changed = sync.NewCond(&s.mutex)
	go s.read(call)
	go s.write(call)
	return s, nil
}

// Send sends a request, and gives what will have its answer. It waits only while very much is unanswered; the arrays
// may be changed when it is back.
func (s *ModelStream) Send(
	ctx context.Context,
	inputs map[string]Array,
	options ...InferOption,
) (*FutureArrays, error) {
	request, err := s.model.request(inputs, options)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, s.wake)()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.ended == nil && ctx.Err() == nil && (len(s.waiting) >= mostCommands || s.bytes >= mostBytes) {
		s.changed.Wait()
	}
	switch {
	case s.ended != nil:
		return nil, s.ended
	case s.closing:
		return nil, newError(0, codes.Canceled, "the stream is closed")
	case ctx.Err() != nil:
		return nil, fromError(ctx.Err())
	}
	s.sent++
	if request.Id == "" {
		request.Id = strconv.FormatUint(s.sent, 10) // comes back with the answer
	}
	data, err := proto.Marshal(request)
	if err != nil {
		return nil, badArgument("a request that cannot be sent: %s", err)
	}
	request.RawInputContents = nil
	future := &FutureArrays{request: request, bytes: len(data), ready: make(chan struct{})}
	s.queued, s.waiting, s.bytes = append(s.queued, data), append(s.waiting, future), s.bytes+len(data)
	s.changed.Broadcast()
	return future, nil
}

// Close sends no more, and waits until all that was sent has been answered. It gives the failure by which the stream
// has ended before, if there was one.
func (s *ModelStream) Close() error {
	s.mutex.Lock()
	s.closing = true
	s.changed.Broadcast()
	s.mutex.Unlock()
	<-s.done
	if s.ended != errClosed {
		return s.ended
	}
	return nil
}

// errClosed is how a stream ends that has been answered all.
var errClosed = newError(0, codes.Canceled, "the stream is closed")

func (s *ModelStream) wake() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.changed.Broadcast()
}

func (s *ModelStream) write(call grpc.ClientStream) {
	for data := s.next(); data != nil; data = s.next() {
		if call.SendMsg(wire.Encoded(data)) != nil {
			return // the reader learns why
		}
	}
	_ = call.CloseSend()
}

// next waits for a request to be written; nil: there will be none.
func (s *ModelStream) next() []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.ended == nil && !s.closing && len(s.queued) == 0 {
		s.changed.Wait()
	}
	if s.ended != nil || len(s.queued) == 0 {
		return nil
	}
	data := s.queued[0]
	s.queued[0], s.queued = nil, s.queued[1:]
	return data
}

func (s *ModelStream) read(call grpc.ClientStream) {
	defer close(s.done)
	var failed *Error
	for failed == nil {
		answer := &inference.ModelStreamInferResponse{}
		if err := call.RecvMsg(answer); isEnd(err) {
			failed = s.over()
		} else if err != nil {
			failed = fromError(err)
		} else {
			failed = s.take(answer)
		}
	}
	s.end(failed)
}

// over is how a stream has ended that the server ended.
func (s *ModelStream) over() *Error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closing && len(s.waiting) == 0 {
		return errClosed
	}
	return newError(0, codes.Unavailable, "the stream to %s has ended", s.model.client.target)
}

// take gives the failure that the stream must end with, if there is one.
func (s *ModelStream) take(answer *inference.ModelStreamInferResponse) *Error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	id, said := answer.GetInferResponse().GetId(), answer.GetErrorMessage()
	if len(s.waiting) == 0 || id != s.waiting[0].request.Id && (id != "" || said == "") {
		if id != "" && id == s.before {
			return nil // it comes a second time
		}
		return badServer("answered request %q, whose turn it is not", id)
	}
	future := s.waiting[0]
	s.waiting[0], s.waiting = nil, s.waiting[1:]
	s.bytes, s.before = s.bytes-future.bytes, future.request.Id
	s.changed.Broadcast()
	if said != "" {
		future.set(nil, newError(0, codes.Unknown, "%s", said))
		return nil
	}
	future.set(outputsOf(future.request, answer.InferResponse))
	return nil
}

// end tells who waits.
func (s *ModelStream) end(failed *Error) {
	s.stop()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ended = failed
	for _, future := range s.waiting {
		future.set(nil, failed)
	}
	s.waiting, s.queued = nil, nil
	s.changed.Broadcast()
}
