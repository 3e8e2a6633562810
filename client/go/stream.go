package kiln

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	kilnv1 "kiln/v1"
)

const (
	// A written piece: as much as makes no other command wait long.
	piece = 256 << 10
	// A server that had a program a moment ago has it still; for one that was not used for longer, the graph goes
	// along.
	known = 10 * time.Second
)

// Stream takes commands without waiting for them: any number in one round trip. They take effect in order. What they
// make has a name at once, so that the next command can use it; buffers are the client's like any others.
//
// A command that fails poisons what it would have made or written: what uses that is told the first failure. Fence
// tells the first failure of a command whose answer nobody waits for, and forgets it. Calls that are no commands know
// nothing of what is under way: Fence first.
//
// A connection that is lost is made again for as long as the lease lasts, and what may not have arrived is sent again;
// each command runs once. Nothing waits but futures, Fence, and a command where very much is under way.
type Stream struct {
	client *Client
	link   *link
	names  atomic.Uint64

	mutex sync.Mutex
	known map[string]time.Time // by hash: until when the server is taken to have a program
}

// Stream is the client's stream of commands. It is begun when it is first asked for, and anew when its session has
// ended.
func (c *Client) Stream() (*Stream, error) {
	if !c.features["submit"] || c.session.token() == nil {
		return nil, newError(
			kilnv1.ErrorCode_NOT_IMPLEMENTED,
			codes.Unimplemented,
			"the server has no streams of commands under a session",
		)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return nil, newError(0, codes.Canceled, "the client is closed")
	}
	var before *link
	if c.stream != nil {
		before = c.stream.link
	}
	if before == nil || before.hasEnded() != nil {
		c.stream = &Stream{client: c, link: newLink(c, before), known: map[string]time.Time{}}
		// From anywhere on, so that another client's handle is none of ours.
		c.stream.names.Store(1<<62 + rand.Uint64()>>3)
	}
	return c.stream, nil
}

// pending is an answer that is on its way.
type pending struct {
	ready  chan struct{}
	room   uint64 // how many bytes of data may come
	data   []byte
	answer *kilnv1.SubmitResponse
	failed *Error
}

func newPending(room uint64) *pending { return &pending{ready: make(chan struct{}), room: room} }

func (f *pending) set(answer *kilnv1.SubmitResponse, failed *Error) {
	f.answer, f.failed = answer, failed
	close(f.ready)
}

func (f *pending) wait(ctx context.Context) error {
	select {
	case <-f.ready:
	case <-ctx.Done():
		return fromError(ctx.Err())
	}
	if f.failed != nil {
		return f.failed
	}
	return nil
}

// FutureArray is an array that is on its way.
type FutureArray struct {
	future *pending
	dtype  DType
	shape  []int64
}

// Wait gives the array when it is there.
func (f *FutureArray) Wait(ctx context.Context) (Array, error) {
	if err := f.future.wait(ctx); err != nil {
		return Array{}, err
	}
	array := Array{f.dtype, f.shape, f.future.data}
	return array, array.check()
}

func (s *Stream) name() uint64 { return s.names.Add(1) }

// Zeros makes a buffer with an array of zeros.
func (s *Stream) Zeros(ctx context.Context, dtype DType, shape ...int64) (*Buffer, error) {
	count, ok := byteCount(dtype, shape)
	if !ok {
		return nil, badArgument("no array has %s and shape %v", dtype, shape)
	}
	made := &Buffer{
		client: s.client,
		handle: s.name(),
		dtype:  dtype,
		shape:  slices.Clone(shape),
		bytes:  uint64(count),
		device: s.client.device,
	}
	command := &kilnv1.AllocateCommand{
		Handle: made.handle,
		Device: s.client.device,
		Type:   &kilnv1.TensorType{Dtype: dtype.message(), Shape: shape},
	}
	return made, s.link.send(
		ctx,
		&kilnv1.SubmitRequest{Command: &kilnv1.SubmitRequest_Allocate{Allocate: command}},
		nil,
	)
}

// Upload makes a buffer with an array. The array's memory must stay as it is until a Fence.
func (s *Stream) Upload(ctx context.Context, array Array) (*Buffer, error) {
	if err := array.check(); err != nil {
		return nil, err
	}
	made, err := s.Zeros(ctx, array.DType, array.Shape...)
	if err != nil {
		return nil, err
	}
	return made, s.WriteBytes(ctx, made, 0, array.Data)
}

// WriteBytes puts bytes at an offset, in pieces. They must stay as they are until a Fence.
func (s *Stream) WriteBytes(ctx context.Context, to *Buffer, offset uint64, data []byte) error {
	for part := range slices.Chunk(data, piece) {
		write := &kilnv1.WriteCommand{Buffer: to.ref(offset), Data: part}
		if err := s.link.send(
			ctx,
			&kilnv1.SubmitRequest{Command: &kilnv1.SubmitRequest_Write{Write: write}},
			nil,
		); err != nil {
			return err
		}
		offset += uint64(len(part))
	}
	return nil
}

// Read asks for a buffer's array.
func (s *Stream) Read(ctx context.Context, from *Buffer) (*FutureArray, error) {
	future := newPending(from.bytes)
	read := &kilnv1.ReadCommand{Buffer: from.ref(0), Bytes: from.bytes}
	array := &FutureArray{future, from.dtype, from.Shape()}
	if from.dtype == 0 {
		array.dtype, array.shape = Uint8, []int64{int64(from.bytes)}
	}
	return array, s.link.send(ctx, &kilnv1.SubmitRequest{Command: &kilnv1.SubmitRequest_Read{Read: read}}, future)
}

// Run runs a program, and gives its results as buffers. The tag comes back with its failure.
func (s *Stream) Run(ctx context.Context, program *Program, tag string, arguments ...Argument) ([]*Buffer, error) {
	bound, err := program.bind(arguments)
	if err != nil {
		return nil, err
	}
	if len(program.compiled.ResultLayouts) > 0 {
		return nil, badArgument("a program for several devices: call it by package kiln/v1")
	}
	command := &kilnv1.ExecuteCommand{Request: program.request(bound)}
	var results []*Buffer
	for _, row := range program.compiled.Signature.Results {
		if len(row.Symbolic) > 0 {
			return nil, badArgument("a result's size depends on a variable: Program.RunKeep gives it")
		}
		made := &Buffer{
			client: s.client,
			dtype:  DType(row.Dtype),
			shape:  row.Shape,
			bytes:  row.Bytes,
			device: s.client.device,
		}
		if row.Aliases != nil {
			parameter := program.compiled.Signature.Parameters[*row.Aliases] // Compile has looked
			given, is := bound[parameter.Slot].(*Buffer)
			if !is {
				return nil, badArgument("parameter %q is updated in place: give a *Buffer", parameter.Name)
			}
			made = given
			command.ResultHandle = append(command.ResultHandle, 0)
		} else {
			made.handle = s.name()
			command.ResultHandle = append(command.ResultHandle, made.handle)
		}
		results = append(results, made)
	}
	s.mutex.Lock()
	if hash := string(program.compiled.GraphHash); time.Now().After(s.known[hash]) {
		command.Request.Graph = program.graph
		s.known[hash] = time.Now().Add(known)
	}
	s.mutex.Unlock()
	return results, s.link.send(
		ctx,
		&kilnv1.SubmitRequest{Tag: tag, Command: &kilnv1.SubmitRequest_Execute{Execute: command}},
		nil,
	)
}

// Free gives buffers back. What was sent before still has their memory.
func (s *Stream) Free(ctx context.Context, buffers ...*Buffer) error {
	free, given := &kilnv1.FreeCommand{}, []*Buffer{}
	for _, buffer := range buffers {
		if !buffer.freed.Swap(true) {
			free.Handle, given = append(free.Handle, buffer.handle), append(given, buffer)
		}
	}
	err := s.link.send(ctx, &kilnv1.SubmitRequest{Command: &kilnv1.SubmitRequest_Free{Free: free}}, nil)
	if err != nil {
		for _, buffer := range given {
			buffer.freed.Store(false)
		}
	}
	return err
}

// Fence waits until all before it has ended, and tells the first failure that nobody was told.
func (s *Stream) Fence(ctx context.Context) error {
	future := newPending(0)
	if err := s.link.send(ctx, fence(), future); err != nil {
		return err
	}
	if err := future.wait(ctx); err != nil {
		return err
	}
	if failed := s.link.takeFailure(); failed != nil {
		return failed
	}
	return nil
}
