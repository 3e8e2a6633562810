package kiln

import (
	"bytes"
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	kilnv1 "kiln/v1"
	"kiln/v1/inference"
)

// modelServer has a model whose answers a test decides.
type modelServer struct {
	inference.UnimplementedGRPCInferenceServiceServer
	lyingMachines
	datatype string // of the input and output
	infer    func(*inference.ModelInferRequest) (*inference.ModelInferResponse, error)
	stream   func(inference.GRPCInferenceService_ModelStreamInferServer) error
	calls    atomic.Int64
}

func (s *modelServer) ModelMetadata(
	context.Context,
	*inference.ModelMetadataRequest,
) (*inference.ModelMetadataResponse, error) {
	row := func(name string) []*inference.ModelMetadataResponse_TensorMetadata {
		return []*inference.ModelMetadataResponse_TensorMetadata{{Name: name, Datatype: s.datatype, Shape: []int64{-1}}}
	}
	return &inference.ModelMetadataResponse{Versions: []string{"1"}, Inputs: row("x"), Outputs: row("y")}, nil
}

func (s *modelServer) ModelInfer(
	_ context.Context,
	request *inference.ModelInferRequest,
) (*inference.ModelInferResponse, error) {
	s.calls.Add(1)
	return s.infer(request)
}

func (s *modelServer) ModelStreamInfer(call inference.GRPCInferenceService_ModelStreamInferServer) error {
	return s.stream(call)
}

func (s *modelServer) model(t *testing.T, with ...Option) (*Client, *Model) {
	s.datatype = "FP32"
	server := grpc.NewServer()
	inference.RegisterGRPCInferenceServiceServer(server, s)
	kilnv1.RegisterDeviceServiceServer(server, s.lyingMachines)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := Connect(ctx, listener.Addr().String(), append(with, WithLease(0))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	model, err := client.Model(ctx, "m", "")
	if err != nil {
		t.Fatal(err)
	}
	return client, model
}

// same gives what came, as y.
func same(request *inference.ModelInferRequest) *inference.ModelInferResponse {
	input := request.Inputs[0]
	row := &inference.ModelInferResponse_InferOutputTensor{Name: "y", Datatype: input.Datatype, Shape: input.Shape}
	return &inference.ModelInferResponse{Id: request.Id, Outputs: []*inference.ModelInferResponse_InferOutputTensor{row},
		RawOutputContents: request.RawInputContents}
}

func x(values ...float32) map[string]Array { return map[string]Array{"x": Vector(values)} }

func TestEveryDtypeOfModelsGoesThereAndBack(t *testing.T) {
	s := &modelServer{infer: func(r *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		return same(r), nil
	}}
	_, model := s.model(t)
	if len(datatypes) != 13 {
		t.Errorf("%d dtypes", len(datatypes))
	}
	for _, dtype := range datatypes {
		for _, shape := range [][]int64{{3}, {2, 2}, {0, 5}, {}} {
			count, _ := byteCount(dtype, shape)
			data := make([]byte, count)
			for at := range data {
				data[at] = byte(at + 1)
			}
			given := Array{dtype, shape, data}
			got, err := model.Infer(t.Context(), map[string]Array{"x": given})
			y := got["y"]
			if err != nil || y.DType != dtype || !slices.Equal(y.Shape, shape) || !bytes.Equal(y.Data, data) {
				t.Errorf("%s %v: %v, %v", dtype, shape, got, err)
			}
		}
	}
}

func TestWhatIsNoInputIsNotSent(t *testing.T) {
	s := &modelServer{}
	_, model := s.model(t)
	for name, array := range map[string]Array{
		"of 8 bits": Vector([]QuarterE4M3{1}),
		"short":     {Float32, []int64{2}, make([]byte, 7)},
		"none":      {},
	} {
		_, err := model.Infer(t.Context(), map[string]Array{name: array})
		if failed := fromError(err); failed.Code != kilnv1.ErrorCode_BAD_ARGUMENT || failed.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.calls.Load() != 0 {
		t.Errorf("%d calls", s.calls.Load())
	}
}

func TestOutputsThatCannotBe(t *testing.T) {
	type response = inference.ModelInferResponse
	s := &modelServer{}
	_, model := s.model(t)
	for name, lie := range map[string]func(*response){
		"no contents":    func(r *response) { r.RawOutputContents = nil },
		"more contents":  func(r *response) { r.RawOutputContents = append(r.RawOutputContents, nil) },
		"half":           func(r *response) { r.RawOutputContents[0] = r.RawOutputContents[0][:4] },
		"a new dtype":    func(r *response) { r.Outputs[0].Datatype = "FP4" },
		"texts":          func(r *response) { r.Outputs[0].Datatype = "BYTES" },
		"a shape":        func(r *response) { r.Outputs[0].Shape = []int64{-2} },
		"too much":       func(r *response) { r.Outputs[0].Shape = []int64{1 << 40, 1 << 40} },
		"another's name": func(r *response) { r.Outputs[0].Name = "z" },
		"twice": func(r *response) {
			r.Outputs = append(r.Outputs, r.Outputs[0])
			r.RawOutputContents = append(r.RawOutputContents, r.RawOutputContents[0])
		},
	} {
		s.infer = func(r *inference.ModelInferRequest) (*response, error) {
			made := same(r)
			lie(made)
			return made, nil
		}
		_, err := model.Infer(t.Context(), x(1, 2), WithOutputs("y"))
		isBadServer(t, name, err)
	}
	s.datatype = "BYTES"
	_, err := model.client.Model(t.Context(), "m", "")
	isBadServer(t, "a model of texts", err)
}

func TestWhatARequestSays(t *testing.T) {
	var came *inference.ModelInferRequest
	s := &modelServer{infer: func(r *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		came = r
		return same(r), nil
	}}
	_, model := s.model(t)
	_, err := model.Infer(t.Context(), x(1), WithOutputs("y"), WithSequence(1<<63, true, false), WithRequestID("mine"))
	if err != nil {
		t.Fatal(err)
	}
	said := came.Parameters
	if came.Id != "mine" || len(came.Outputs) != 1 || said["sequence_id"].GetUint64Param() != 1<<63 ||
		!said["sequence_start"].GetBoolParam() || said["sequence_end"].GetBoolParam() || len(said) != 3 {
		t.Error(came)
	}
}

func TestAStepOfASequenceIsNotMadeAgain(t *testing.T) {
	s := &modelServer{infer: func(*inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		return nil, coded(codes.Unavailable, kilnv1.ErrorCode_SHUTTING_DOWN) // it has not begun
	}}
	_, model := s.model(t)
	for calls, options := range map[int64][]InferOption{attempts: nil, 1: {WithSequence(1, true, true)}} {
		s.calls.Store(0)
		_, err := model.Infer(t.Context(), x(1), options...)
		if !HasCode(err, kilnv1.ErrorCode_SHUTTING_DOWN) || s.calls.Load() != calls {
			t.Errorf("%d calls, not %d: %v", s.calls.Load(), calls, err)
		}
	}
}
