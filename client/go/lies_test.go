package kiln

import (
	"context"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	kilnv1 "kiln/v1"
)

// A server that says what no kilnd would: the client must tell, and neither panic nor wait for ever.

type lies struct {
	signature *kilnv1.Signature
	results   []*kilnv1.ResultValue
	buffer    *kilnv1.BufferDescription
	free      error
	lease     uint32
	gone      bool
	submit    func(kilnv1.KernelService_SubmitServer, int64) error // with the connection's number, from 1 on

	opens, renewals, streams atomic.Int64
}

type lyingKernels struct {
	kilnv1.UnimplementedKernelServiceServer
	*lies
}
type lyingBuffers struct {
	kilnv1.UnimplementedBufferServiceServer
	*lies
}
type lyingSessions struct {
	kilnv1.UnimplementedSessionServiceServer
	*lies
}
type lyingMachines struct {
	kilnv1.UnimplementedDeviceServiceServer
}

func (lyingMachines) List(context.Context, *kilnv1.ListDevicesRequest) (*kilnv1.ListDevicesResponse, error) {
	return &kilnv1.ListDevicesResponse{ProtocolMin: 1, ProtocolMax: 1, Features: []string{"sessions", "submit"}}, nil
}

func (l lyingSessions) Open(context.Context, *kilnv1.OpenSessionRequest) (*kilnv1.OpenSessionResponse, error) {
	if l.opens.Add(1) > 1 {
		return nil, status.Error(codes.ResourceExhausted, "full")
	}
	return &kilnv1.OpenSessionResponse{Token: []byte("token"), LeaseSeconds: l.lease}, nil
}

func (l lyingSessions) Renew(context.Context, *kilnv1.RenewSessionRequest) (*kilnv1.RenewSessionResponse, error) {
	l.renewals.Add(1)
	if l.gone {
		return nil, coded(codes.NotFound, kilnv1.ErrorCode_SESSION_EXPIRED)
	}
	return &kilnv1.RenewSessionResponse{}, nil
}

func (l lyingKernels) Compile(_ context.Context, r *kilnv1.CompileRequest) (*kilnv1.CompileResponse, error) {
	hash, err := Hash(r.Graph)
	return &kilnv1.CompileResponse{GraphHash: hash[:], Signature: l.signature}, err
}

func (l lyingKernels) Execute(context.Context, *kilnv1.ExecuteRequest) (*kilnv1.ExecuteResponse, error) {
	return &kilnv1.ExecuteResponse{Results: l.results}, nil
}

func (l lyingKernels) Submit(call kilnv1.KernelService_SubmitServer) error {
	return l.submit(call, l.streams.Add(1))
}

func (l lyingBuffers) Allocate(context.Context, *kilnv1.AllocateRequest) (*kilnv1.AllocateResponse, error) {
	return &kilnv1.AllocateResponse{Buffer: l.buffer}, nil
}

func (l lyingBuffers) Free(context.Context, *kilnv1.FreeRequest) (*kilnv1.FreeResponse, error) {
	return &kilnv1.FreeResponse{}, l.free
}

func coded(as codes.Code, code kilnv1.ErrorCode) error {
	detail, err := anypb.New(&kilnv1.ErrorDetail{Code: code})
	if err != nil {
		return err
	}
	return status.FromProto(&spb.Status{Code: int32(as), Message: "so", Details: []*anypb.Any{detail}}).Err()
}

// client of a server that says so.
func (l *lies) client(t *testing.T) *Client {
	server := grpc.NewServer()
	kilnv1.RegisterKernelServiceServer(server, lyingKernels{lies: l})
	kilnv1.RegisterBufferServiceServer(server, lyingBuffers{lies: l})
	kilnv1.RegisterSessionServiceServer(server, lyingSessions{lies: l})
	kilnv1.RegisterDeviceServiceServer(server, lyingMachines{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := Connect(ctx, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (l *lies) stream(t *testing.T) (*Client, *Stream) {
	l.lease = 60
	client := l.client(t)
	stream, err := client.Stream()
	if err != nil {
		t.Fatal(err)
	}
	return client, stream
}

func (l *lies) compiled(t *testing.T) (*Program, error) {
	g := NewGraph()
	g.Output(g.Param("x", Float32, 4).Add(1))
	return l.client(t).Compile(t.Context(), g, nil)
}

func isBadServer(t *testing.T, what string, err error) {
	t.Helper()
	if !HasCode(err, kilnv1.ErrorCode_INTERNAL_FAULT) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestASignatureThatCannotBe(t *testing.T) {
	for name, said := range map[string]*kilnv1.Signature{
		"none":      nil,
		"an alias":  {Results: []*kilnv1.Signature_Result{{Aliases: proto.Uint32(7)}}},
		"no result": {},
	} {
		_, err := (&lies{signature: said}).compiled(t)
		isBadServer(t, name, err)
	}
}

func TestResultsThatCannotBe(t *testing.T) {
	row := &kilnv1.Signature_Result{Dtype: Float32.message(), Shape: []int64{4}, Bytes: 16}
	huge := &kilnv1.BufferDescription{Handle: 5, Bytes: 1 << 62, Dtype: Int8.message(), Shape: []int64{1 << 62}}
	more := &kilnv1.BufferDescription{Handle: 5, Bytes: 1 << 62, Dtype: Float32.message(), Shape: []int64{4}}
	for name, results := range map[string][]*kilnv1.ResultValue{
		"none":           {},
		"a huge one":     {{Value: &kilnv1.ResultValue_Buffer{Buffer: huge}}},
		"more than said": {{Value: &kilnv1.ResultValue_Buffer{Buffer: more}}},
	} {
		l := &lies{signature: &kilnv1.Signature{Results: []*kilnv1.Signature_Result{row}}, results: results}
		program, err := l.compiled(t)
		if err != nil {
			t.Fatal(err)
		}
		_, err = program.Run(t.Context())
		isBadServer(t, name, err)
		_, err = program.RunKeep(t.Context())
		isBadServer(t, name, err)
	}
}

func TestBuffersThatCannotBe(t *testing.T) {
	for _, said := range []*kilnv1.BufferDescription{nil, {Handle: 3, Bytes: math.MaxInt64}} {
		_, err := (&lies{buffer: said}).client(t).Allocate(t.Context(), 16)
		isBadServer(t, said.String(), err)
	}
}

func TestAFreeThatFailedIsTriedAgain(t *testing.T) {
	l := &lies{buffer: &kilnv1.BufferDescription{Handle: 3, Bytes: 16}, free: status.Error(codes.Internal, "lost")}
	buffer, err := l.client(t).Allocate(t.Context(), 16)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if buffer.Free(t.Context()) == nil {
			t.Error("a free that failed is taken for one")
		}
	}
}

func TestAGradientThatCannotBe(t *testing.T) {
	for name, nodes := range map[string][]*kilnv1.UOp{
		"a root's source":         {{Op: kilnv1.Op_TUPLE, Src: []uint32{9}}},
		"a nameless parameter":    {{Op: kilnv1.Op_PARAM}, {Op: kilnv1.Op_TUPLE, Src: []uint32{0}}},
		"a source that is itself": {{Op: kilnv1.Op_NEG, Src: []uint32{0}}, {Op: kilnv1.Op_TUPLE, Src: []uint32{0}}},
	} {
		g := NewGraph()
		g.Param("x", Float32, 4) // in slot 0
		g.Append(&kilnv1.GradientResponse{
			Results: []*kilnv1.Signature_Result{{}},
			Graph:   &kilnv1.Graph{Nodes: nodes},
		})
		if g.Err() == nil {
			t.Error(name)
		}
	}
}

// A session that is gone while no other is granted is not asked after all the time, nor one whose lease is no time.
func TestRenewalsRest(t *testing.T) {
	for name, l := range map[string]*lies{"gone": {gone: true, lease: 3}, "no time": {}} {
		began := time.Now()
		l.client(t).session.hasten()
		for l.renewals.Load() < 3 && time.Since(began) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		if found, most := l.renewals.Load(), 2+int64(time.Since(began)/rest); found < 3 || found > most {
			t.Errorf("%s: %d renewals, not 3 to %d", name, found, most)
		}
	}
}

func welcome(call kilnv1.KernelService_SubmitServer, said *kilnv1.SubmitWelcome) {
	_ = call.Send(&kilnv1.SubmitResponse{Event: &kilnv1.SubmitResponse_Welcome{Welcome: said}})
}

func done(call kilnv1.KernelService_SubmitServer, command uint64) {
	event := &kilnv1.SubmitResponse_Done{Done: &kilnv1.CommandDone{}}
	_ = call.Send(&kilnv1.SubmitResponse{CommandId: command, Event: event})
}

// answers all that ask, but those left out.
func answers(call kilnv1.KernelService_SubmitServer, without ...uint64) error {
	for {
		request, err := call.Recv()
		if err != nil {
			return nil
		}
		if request.Answer && !slices.Contains(without, request.CommandId) {
			done(call, request.CommandId)
		}
	}
}

func TestAnswersThatCannotBe(t *testing.T) {
	for name, submit := range map[string]func(kilnv1.KernelService_SubmitServer, int64) error{
		"of the future": func(call kilnv1.KernelService_SubmitServer, _ int64) error {
			welcome(call, &kilnv1.SubmitWelcome{})
			done(call, math.MaxUint64)
			return answers(call, 1, 2)
		},
		"lost of the future": func(call kilnv1.KernelService_SubmitServer, _ int64) error {
			welcome(call, &kilnv1.SubmitWelcome{AnswersLost: 99})
			return answers(call, 1, 2)
		},
		"one left out": func(call kilnv1.KernelService_SubmitServer, _ int64) error {
			welcome(call, &kilnv1.SubmitWelcome{})
			return answers(call, 1)
		},
		"data for a fence": func(call kilnv1.KernelService_SubmitServer, _ int64) error {
			welcome(call, &kilnv1.SubmitWelcome{})
			_, _ = call.Recv()
			_, _ = call.Recv()
			data := &kilnv1.SubmitResponse_Data{Data: make([]byte, 1<<20)}
			_ = call.Send(&kilnv1.SubmitResponse{CommandId: 1, More: true, Event: data})
			return answers(call)
		},
	} {
		_, stream := (&lies{submit: submit}).stream(t)
		first := make(chan error, 1)
		go func() { first <- stream.Fence(t.Context()) }()
		isBadServer(t, name, stream.Fence(t.Context()))
		isBadServer(t, name, <-first)
	}
}

func TestAClosedStreamHasEnded(t *testing.T) {
	l := &lies{submit: func(call kilnv1.KernelService_SubmitServer, _ int64) error {
		welcome(call, &kilnv1.SubmitWelcome{})
		return answers(call)
	}}
	client, stream := l.stream(t)
	for range 20 {
		for range 200 {
			if _, err := stream.Zeros(t.Context(), Float32, 4); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.Fence(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.link.bytes != 0 || len(stream.link.kept) != 0 {
		t.Errorf("%d commands of %d bytes are kept", len(stream.link.kept), stream.link.bytes)
	}
	if _, err := stream.Zeros(t.Context(), Float32, 4); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if found := stream.link.answered(); found != 4022 || l.streams.Load() != 1 {
		t.Errorf("%d of 4022 commands answered when closed, %d connections", found, l.streams.Load())
	}
	if _, err := client.Stream(); fromError(err) == nil || fromError(err).Status != codes.Canceled {
		t.Error("a closed client's stream", err)
	}
}

// What nobody waits for is told of by the next Fence, when its answer is lost.
func TestALostAnswerIsTold(t *testing.T) {
	l := &lies{submit: func(call kilnv1.KernelService_SubmitServer, number int64) error {
		if number == 1 {
			_, _ = call.Recv()
			_, _ = call.Recv()
			return status.Error(codes.Unavailable, "cut")
		}
		welcome(call, &kilnv1.SubmitWelcome{Accepted: 1, AnswersLost: 1})
		return answers(call)
	}}
	_, stream := l.stream(t)
	if _, err := stream.Zeros(t.Context(), Float32, 4); err != nil {
		t.Fatal(err)
	}
	if err := fromError(stream.Fence(t.Context())); err == nil || err.Status != codes.Unavailable {
		t.Error(err)
	}
	if err := stream.Fence(t.Context()); err != nil {
		t.Error(err)
	}
}

// A server that welcomes and then fails is given up with the lease.
func TestNoStreamForLongerThanTheLease(t *testing.T) {
	l := &lies{submit: func(call kilnv1.KernelService_SubmitServer, _ int64) error {
		welcome(call, &kilnv1.SubmitWelcome{})
		return status.Error(codes.Internal, "so")
	}}
	client, stream := l.stream(t)
	client.session.mutex.Lock()
	client.session.granted = time.Second
	client.session.mutex.Unlock()
	if err := fromError(stream.Fence(t.Context())); err == nil || err.Status != codes.Internal {
		t.Error(err)
	}
	if found := l.streams.Load(); found > 8 {
		t.Errorf("%d connections within a second of tries ever farther apart", found)
	}
}
