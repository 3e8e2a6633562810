package kiln

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"kiln/internal/wire"
	"kiln/v1/inference"
)

// ModelIndex is what the server says of a version of a model in its folder.
type ModelIndex struct {
	Name, Version string
	// State is READY, LOADING or UNAVAILABLE.
	State string
	// Reason is why it could not be loaded; beside READY: why its newest files could not.
	Reason string
}

// TensorMetadata is an input or output of a model. A size that each call decides is -1.
type TensorMetadata struct {
	Name  string
	DType DType
	Shape []int64
}

// Model is one that the server has of a file (docs/serving.md). Whoever asks it knows names and arrays, and no graph.
type Model struct {
	client          *Client
	name, version   string
	versions        []string
	inputs, outputs []TensorMetadata
}

// Models are those of the server's folder, which takes the right to administer.
func (c *Client) Models(ctx context.Context) ([]ModelIndex, error) {
	said, err := c.models.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
	if err != nil {
		return nil, err
	}
	var rows []ModelIndex
	for _, row := range said.Models {
		rows = append(rows, ModelIndex{row.GetName(), row.GetVersion(), row.GetState(), row.GetReason()})
	}
	return rows, nil
}

// Model asks what a model takes and gives, so that a name that is wrong is told here. With version "" each call is the
// greatest's that is ready then.
func (c *Client) Model(ctx context.Context, name, version string) (*Model, error) {
	said, err := c.models.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: name, Version: version})
	if err != nil {
		return nil, err
	}
	m := &Model{client: c, name: name, version: version, versions: said.Versions}
	if m.inputs, err = tensorsOf("input", said.Inputs); err != nil {
		return nil, err
	}
	m.outputs, err = tensorsOf("output", said.Outputs)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func tensorsOf(what string, said []*inference.ModelMetadataResponse_TensorMetadata) ([]TensorMetadata, error) {
	var rows []TensorMetadata
	for _, row := range said {
		dtype, is := datatypes[row.GetDatatype()]
		if !is {
			return nil, badServer("has %s %q of %q, which this package does not know", what, row.GetName(),
				row.GetDatatype())
		}
		rows = append(rows, TensorMetadata{row.GetName(), dtype, append([]int64{}, row.GetShape()...)})
	}
	return rows, nil
}

// Name is the model's.
func (m *Model) Name() string { return m.name }

// Version is the one that was asked for; "" where that is the greatest.
func (m *Model) Version() string { return m.version }

// Versions are those that were ready.
func (m *Model) Versions() []string { return slices.Clone(m.versions) }

// Inputs are what it takes, in the model's order.
func (m *Model) Inputs() []TensorMetadata { return slices.Clone(m.inputs) }

// Outputs are what it gives, in the model's order.
func (m *Model) Outputs() []TensorMetadata { return slices.Clone(m.outputs) }

// Ready says whether the server would run it now.
func (m *Model) Ready(ctx context.Context) (bool, error) {
	said, err := m.client.models.ModelReady(ctx, &inference.ModelReadyRequest{Name: m.name, Version: m.version})
	return said.GetReady(), err
}

// The scalar types of models, by the names that the open inference protocol has for them.
var datatypes = map[string]DType{
	"BOOL": Bool,
	"INT8": Int8, "INT16": Int16, "INT32": Int32, "INT64": Int64,
	"UINT8": Uint8, "UINT16": Uint16, "UINT32": Uint32, "UINT64": Uint64,
	"FP16": Float16, "FP32": Float32, "FP64": Float64, "BF16": BFloat16,
}

var datatypeNames = func() map[DType]string {
	names := map[DType]string{}
	for name, dtype := range datatypes {
		names[dtype] = name
	}
	return names
}()

// InferOption is one of a request's to a model.
type InferOption func(*inference.ModelInferRequest)

// WithOutputs asks for these outputs alone.
func WithOutputs(names ...string) InferOption {
	return func(r *inference.ModelInferRequest) {
		for _, name := range names {
			r.Outputs = append(r.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{Name: name})
		}
	}
}

// WithSequence is for a model that goes on from one request of a sequence to the next: which one, from 1 on, and
// whether this is its first request or its last. Such a request is not made again by itself, since the sequence may
// have moved on.
func WithSequence(id uint64, start, end bool) InferOption {
	return func(r *inference.ModelInferRequest) {
		r.Parameters = map[string]*inference.InferParameter{
			sequenceID:       {ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: id}},
			"sequence_start": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: start}},
			"sequence_end":   {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: end}},
		}
	}
}

const sequenceID = "sequence_id"

// WithRequestID names a request, for who looks at what travels.
func WithRequestID(id string) InferOption {
	return func(r *inference.ModelInferRequest) { r.Id = id }
}

// Infer runs the model once: arrays by name go in, and arrays by name come out. Arrays travel in one message, for whose
// size the server has a limit.
func (m *Model) Infer(ctx context.Context, inputs map[string]Array, options ...InferOption) (map[string]Array, error) {
	request, err := m.request(inputs, options)
	if err != nil {
		return nil, err
	}
	answer, err := m.client.models.ModelInfer(ctx, request, grpc.ForceCodecV2(wire.Codec))
	if err != nil {
		return nil, err
	}
	return outputsOf(request, answer)
}

// mostRequest is in bytes: gRPC's servers count a message's in 32 bits with a sign. The rest is for names.
const mostRequest = math.MaxInt32 - 1<<20

// request shares the arrays' memory. One that no message holds ends nothing but itself.
func (m *Model) request(inputs map[string]Array, options []InferOption) (*inference.ModelInferRequest, error) {
	request := &inference.ModelInferRequest{ModelName: m.name, ModelVersion: m.version}
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		array := inputs[name]
		datatype, is := datatypeNames[array.DType]
		if !is {
			return nil, badInput(name, "models take none of %s", array.DType)
		}
		if failed := fromError(array.check()); failed != nil {
			return nil, badInput(name, "%s", failed.Message)
		}
		request.Inputs = append(request.Inputs, &inference.ModelInferRequest_InferInputTensor{
			Name:     name,
			Datatype: datatype,
			Shape:    array.Shape,
		})
		request.RawInputContents = append(request.RawInputContents, array.Data)
		if bytes += len(array.Data); bytes > mostRequest {
			failed := newError(0, codes.ResourceExhausted,
				"input %q: with its %d bytes a request has more than %d, as many as one message holds",
				name, len(array.Data), mostRequest)
			failed.Field = name
			return nil, failed
		}
	}
	for _, option := range options {
		option(request)
	}
	return request, nil
}

func badInput(name, format string, values ...any) *Error {
	failed := badArgument("input %q: %s", name, fmt.Sprintf(format, values...))
	failed.Field = name
	return failed
}

// outputsOf are an answer's arrays, all that were asked for among them.
func outputsOf(request *inference.ModelInferRequest, answer *inference.ModelInferResponse) (map[string]Array, error) {
	contents := answer.GetRawOutputContents()
	if len(contents) != len(answer.GetOutputs()) {
		return nil, badServer("gave %d outputs, and the contents of %d", len(answer.GetOutputs()), len(contents))
	}
	arrays := map[string]Array{}
	for at, row := range answer.GetOutputs() {
		name := row.GetName()
		if _, twice := arrays[name]; twice {
			return nil, badServer("gave output %q twice", name)
		}
		dtype, is := datatypes[row.GetDatatype()]
		if !is {
			return nil, badServer("gave output %q as %q, which this package does not know", name, row.GetDatatype())
		}
		array := Array{dtype, append([]int64{}, row.GetShape()...), contents[at]}
		if array.check() != nil {
			return nil, badServer("gave output %q as %d bytes of %s %v", name, len(array.Data), dtype, array.Shape)
		}
		arrays[name] = array
	}
	for _, wanted := range request.Outputs {
		if _, is := arrays[wanted.Name]; !is {
			return nil, badServer("did not give output %q", wanted.Name)
		}
	}
	return arrays, nil
}
