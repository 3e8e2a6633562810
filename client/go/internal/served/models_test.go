// Package served tests served models against servers that say whatever a test wants of them.
package served

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kiln"
	kilnv1 "kiln/v1"
	"kiln/v1/inference"
)

// modelServer has a model whose answers a test decides.
type modelServer struct {
	inference.UnimplementedGRPCInferenceServiceServer
	kilnv1.UnimplementedDeviceServiceServer
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

func (*modelServer) List(context.Context, *kilnv1.ListDevicesRequest) (*kilnv1.ListDevicesResponse, error) {
	return &kilnv1.ListDevicesResponse{ProtocolMin: 1, ProtocolMax: 1}, nil
}

func (s *modelServer) client(t *testing.T) *kiln.Client {
	server := grpc.NewServer()
	inference.RegisterGRPCInferenceServiceServer(server, s)
	kilnv1.RegisterDeviceServiceServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kiln.Connect(ctx, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (s *modelServer) model(t *testing.T) *kiln.Model {
	s.datatype = "FP32"
	model, err := s.client(t).Model(t.Context(), "m", "")
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// failed is a call's *kiln.Error; the test fails where there is none.
func failed(t *testing.T, what string, err error) *kiln.Error {
	t.Helper()
	found := &kiln.Error{}
	if !errors.As(err, &found) {
		t.Errorf("%s: %v", what, err)
	}
	return found
}

func isBadServer(t *testing.T, what string, err error) {
	t.Helper()
	if !kiln.HasCode(err, kilnv1.ErrorCode_INTERNAL_FAULT) {
		t.Errorf("%s: %v", what, err)
	}
}

// same gives what came, as y.
func same(request *inference.ModelInferRequest) *inference.ModelInferResponse {
	input := request.Inputs[0]
	row := &inference.ModelInferResponse_InferOutputTensor{Name: "y", Datatype: input.Datatype, Shape: input.Shape}
	return &inference.ModelInferResponse{
		Id:                request.Id,
		Outputs:           []*inference.ModelInferResponse_InferOutputTensor{row},
		RawOutputContents: request.RawInputContents,
	}
}

func x(values ...float32) map[string]kiln.Array {
	return map[string]kiln.Array{"x": kiln.Vector(values)}
}

func TestWhatAModelTakesAndGives(t *testing.T) {
	model := (&modelServer{}).model(t)
	inputs, outputs := model.Inputs(), model.Outputs()
	if len(inputs) != 1 || inputs[0].Name != "x" || inputs[0].DType != kiln.Float32 || len(outputs) != 1 ||
		outputs[0].Name != "y" || !slices.Equal(outputs[0].Shape, []int64{-1}) {
		t.Error(inputs, outputs)
	}
	if model.Name() != "m" || model.Version() != "" || !slices.Equal(model.Versions(), []string{"1"}) {
		t.Error(model.Name(), model.Version(), model.Versions())
	}
	for _, datatype := range []string{"BYTES", "FP4", ""} {
		_, err := (&modelServer{datatype: datatype}).client(t).Model(t.Context(), "m", "1")
		isBadServer(t, datatype, err)
	}
}

func TestEveryDtypeOfModelsGoesThereAndBack(t *testing.T) {
	var came string
	s := &modelServer{infer: func(r *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		came = r.Inputs[0].Datatype
		return same(r), nil
	}}
	model := s.model(t)
	for name, dtype := range map[string]kiln.DType{
		"BOOL": kiln.Bool, "INT8": kiln.Int8, "INT16": kiln.Int16, "INT32": kiln.Int32, "INT64": kiln.Int64,
		"UINT8": kiln.Uint8, "UINT16": kiln.Uint16, "UINT32": kiln.Uint32, "UINT64": kiln.Uint64,
		"FP16": kiln.Float16, "FP32": kiln.Float32, "FP64": kiln.Float64, "BF16": kiln.BFloat16,
	} {
		for count, shape := range map[int64][]int64{3: {3}, 4: {2, 2}, 0: {0, 5}, 1: {}} {
			data := make([]byte, count*dtype.Size())
			for at := range data {
				data[at] = byte(at + 1)
			}
			given := kiln.Array{DType: dtype, Shape: shape, Data: data}
			got, err := model.Infer(t.Context(), map[string]kiln.Array{"x": given})
			y := got["y"]
			if err != nil || y.DType != dtype || !slices.Equal(y.Shape, shape) || !bytes.Equal(y.Data, data) ||
				came != name {
				t.Errorf("%s %v: %s, %v, %v", name, shape, came, got, err)
			}
		}
	}
}

func TestWhatIsNoInputIsNotSent(t *testing.T) {
	s := &modelServer{}
	model := s.model(t)
	for name, array := range map[string]kiln.Array{
		"of 8 bits": kiln.Vector([]kiln.QuarterE4M3{1}),
		"short":     {DType: kiln.Float32, Shape: []int64{2}, Data: make([]byte, 7)},
		"none":      {},
	} {
		_, err := model.Infer(t.Context(), map[string]kiln.Array{name: array})
		if said := failed(t, name, err); said.Code != kilnv1.ErrorCode_BAD_ARGUMENT || said.Field != name {
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
	model := s.model(t)
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
		_, err := model.Infer(t.Context(), x(1, 2), kiln.WithOutputs("y"))
		isBadServer(t, name, err)
	}
}

func TestWhatARequestSays(t *testing.T) {
	var came *inference.ModelInferRequest
	s := &modelServer{infer: func(r *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		came = r
		return same(r), nil
	}}
	model := s.model(t)
	sequence := kiln.WithSequence(1<<63, true, false)
	_, err := model.Infer(t.Context(), x(1), kiln.WithOutputs("y"), sequence, kiln.WithRequestID("mine"))
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
		stopping, err := status.New(codes.Unavailable, "so").WithDetails(
			&kilnv1.ErrorDetail{Code: kilnv1.ErrorCode_SHUTTING_DOWN}) // it has not begun
		return nil, errors.Join(err, stopping.Err())
	}}
	model := s.model(t)
	for calls, options := range map[int64][]kiln.InferOption{3: nil, 1: {kiln.WithSequence(1, true, true)}} {
		s.calls.Store(0)
		_, err := model.Infer(t.Context(), x(1), options...)
		if !kiln.HasCode(err, kilnv1.ErrorCode_SHUTTING_DOWN) || s.calls.Load() != calls {
			t.Errorf("%d calls, not %d: %v", s.calls.Load(), calls, err)
		}
	}
}
