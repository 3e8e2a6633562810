package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kiln"
	"kiln/v1/inference"
)

func TestAStreamAnswersInOrder(t *testing.T) {
	s := &modelServer{stream: func(call inference.GRPCInferenceService_ModelStreamInferServer) error {
		for number := 0; ; number++ {
			request, err := call.Recv()
			if err != nil {
				return nil
			}
			answer := &inference.ModelStreamInferResponse{InferResponse: same(request)}
			if number%3 == 1 {
				failed := &inference.ModelInferResponse{Id: request.Id}
				answer = &inference.ModelStreamInferResponse{ErrorMessage: "so", InferResponse: failed}
			}
			_ = call.Send(answer)
			if number%6 == 1 {
				answer.InferResponse.Id = "" // of the next, which is refused before it is read
				_, _ = call.Recv()
				number++
			}
			_ = call.Send(answer) // else a second time
		}
	}}
	model := s.model(t)
	stream, err := model.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	values, futures := []float32{0}, []*kiln.FutureArrays{}
	for number := range 300 {
		values[0] = float32(number) // what was sent before stays as it was
		future, err := stream.Send(t.Context(), x(values...), kiln.WithOutputs("y"))
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, future)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	for number, future := range futures {
		arrays, err := future.Wait(t.Context())
		if number%6 == 1 || number%6 == 2 || number%6 == 4 {
			if said := failed(t, "so", err); said.Message != "so" || said.Status != codes.Unknown {
				t.Errorf("%d: %v", number, err)
			}
		} else if got, _ := kiln.Values[float32](arrays["y"]); err != nil || got[0] != float32(number) {
			t.Errorf("%d: %v, %v", number, got, err)
		}
	}
	if _, err := stream.Send(t.Context(), x(1)); !errors.Is(err, context.Canceled) {
		t.Error("a closed stream took a request:", err)
	}
	if err := stream.Close(); err != nil {
		t.Error("twice:", err)
	}
}

func TestARequestThatNoMessageHoldsEndsNothingElse(t *testing.T) {
	s := &modelServer{stream: func(call inference.GRPCInferenceService_ModelStreamInferServer) error {
		for {
			request, err := call.Recv()
			if err != nil {
				return nil
			}
			_ = call.Send(&inference.ModelStreamInferResponse{InferResponse: same(request)})
		}
	}}
	model := s.model(t)
	stream, err := model.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	part, inputs := kiln.Vector(make([]float32, 8<<20)), map[string]kiln.Array{}
	for number := range 64 {
		inputs[fmt.Sprintf("x%02d", number)] = part // 2 GiB, in 32 MiB of memory
	}
	for _, ask := range []func() error{
		func() error { _, err := stream.Send(t.Context(), inputs); return err },
		func() error { _, err := model.Infer(t.Context(), inputs); return err },
	} {
		said := failed(t, "2 GiB", ask())
		if said.Status != codes.ResourceExhausted || said.Field != "x63" {
			t.Error(said)
		}
	}
	future, err := stream.Send(t.Context(), x(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := future.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
}

func TestHowAStreamEnds(t *testing.T) {
	type call = inference.GRPCInferenceService_ModelStreamInferServer
	for name, row := range map[string]struct {
		server func(call) error
		status codes.Code
	}{
		"refused": {func(call) error { return status.Error(codes.Unauthenticated, "who?") }, codes.Unauthenticated},
		"too soon": {func(c call) error {
			_, _ = c.Recv()
			return nil
		}, codes.Unavailable},
		"of another": {func(c call) error {
			request, _ := c.Recv()
			answer := same(request)
			answer.Id = "of another"
			_ = c.Send(&inference.ModelStreamInferResponse{InferResponse: answer})
			<-c.Context().Done()
			return nil
		}, codes.Internal},
		"before it was asked": {func(c call) error {
			said := &inference.ModelInferResponse{Id: "0"}
			_ = c.Send(&inference.ModelStreamInferResponse{InferResponse: said})
			<-c.Context().Done()
			return nil
		}, codes.Internal},
	} {
		model := (&modelServer{stream: row.server}).model(t)
		stream, err := model.Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		future, err := stream.Send(t.Context(), x(1))
		if err == nil { // else the stream has ended by then
			_, err = future.Wait(t.Context())
		}
		if failed(t, name, err).Status != row.status {
			t.Errorf("%s, the request: %v", name, err)
		}
		if err := stream.Close(); failed(t, name, err).Status != row.status {
			t.Errorf("%s, the stream: %v", name, err)
		}
	}
}

func TestAStreamIsGivenUp(t *testing.T) {
	gone := make(chan struct{})
	s := &modelServer{stream: func(c inference.GRPCInferenceService_ModelStreamInferServer) error {
		for {
			if _, err := c.Recv(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				close(gone)
				break
			}
		}
		return nil
	}}
	model := s.model(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := model.Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	future, err := stream.Send(t.Context(), x(1))
	if err != nil {
		t.Fatal(err)
	}
	short, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	if _, err := future.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// As much as may be unanswered: what is sent behind it waits, and can be given up.
	large := map[string]kiln.Array{"x": kiln.Vector(make([]byte, 16<<20))}
	if _, err := stream.Send(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Send(short, x(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	cancel()
	<-gone
	if _, err := future.Wait(t.Context()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := stream.Close(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
