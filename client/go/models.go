package kiln

import (
	"context"
	"slices"

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
