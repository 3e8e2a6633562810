package kiln

import (
	"context"

	"google.golang.org/grpc"

	kilnv1 "kiln/v1"
)

// Reduction is how collectives and REDUCE combine.
type Reduction kilnv1.Op

// The reductions.
const (
	Sum     = Reduction(kilnv1.Op_ADD)
	Product = Reduction(kilnv1.Op_MUL)
	Maximum = Reduction(kilnv1.Op_MAX)
)

// Collective says what several devices do with one tensor together: buffers stand in the order of their ranks, one a
// device. Count is the elements of the whole tensor, which is cut into parts as flat as can be; 0: those of the first
// output, or of the first input if the outputs are its parts. proto/kiln/v1/collective_service.proto says what goes
// where.
type Collective struct {
	Inputs, Outputs []*Buffer
	Count           uint64
	Op              Reduction // of those that reduce; Sum otherwise
	Root            uint32
	Deterministic   bool // combine in the order of the ranks
}

type collectiveCall func(
	context.Context, *kilnv1.CollectiveRequest, ...grpc.CallOption,
) (*kilnv1.CollectiveResponse, error)

func (c Collective) do(ctx context.Context, call collectiveCall, whole []*Buffer, reduces bool) error {
	if len(c.Inputs) == 0 || len(c.Outputs) == 0 {
		return badArgument("a collective of no buffers")
	}
	dtype := c.Inputs[0].dtype
	if dtype.Size() == 0 {
		return badArgument("a collective of buffers without a type")
	}
	request := &kilnv1.CollectiveRequest{
		Dtype:              dtype.message(),
		Count:              c.Count,
		Root:               c.Root,
		DeterministicOrder: c.Deterministic,
	}
	if c.Count == 0 {
		request.Count = whole[0].bytes / uint64(dtype.Size())
	}
	if reduces {
		request.Op = kilnv1.Op(c.Op)
		if c.Op == 0 {
			request.Op = kilnv1.Op_ADD
		}
	}
	for _, buffer := range c.Inputs {
		request.Input = append(request.Input, buffer.ref(0))
	}
	for _, buffer := range c.Outputs {
		request.Output = append(request.Output, buffer.ref(0))
	}
	_, err := call(ctx, request)
	return err
}

// Broadcast gives the root's tensor to all.
func (c *Client) Broadcast(ctx context.Context, what Collective) error {
	return what.do(ctx, c.collectives.Broadcast, what.Inputs, false)
}

// Scatter gives each its part of the root's tensor.
func (c *Client) Scatter(ctx context.Context, what Collective) error {
	return what.do(ctx, c.collectives.Scatter, what.Inputs, false)
}

// Gather puts everyone's part, one after the other, at the root.
func (c *Client) Gather(ctx context.Context, what Collective) error {
	return what.do(ctx, c.collectives.Gather, what.Outputs, false)
}

// Reduce combines all tensors at the root.
func (c *Client) Reduce(ctx context.Context, what Collective) error {
	return what.do(ctx, c.collectives.Reduce, what.Outputs, true)
}

// AllGather puts everyone's part, one after the other, at all.
func (c *Client) AllGather(ctx context.Context, what Collective) error {
	return what.do(ctx, c.collectives.AllGather, what.Outputs, false)
}

// ReduceScatter gives each its part of all tensors combined.
func (c *Client) ReduceScatter(ctx context.Context, what Collective) error {
	return what.do(ctx, c.collectives.ReduceScatter, what.Inputs, true)
}

// AllReduce combines all tensors at all; outputs may be the inputs.
func (c *Client) AllReduce(ctx context.Context, what Collective) error {
	return what.do(ctx, c.collectives.AllReduce, what.Outputs, true)
}
