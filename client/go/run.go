package kiln

import (
	"context"

	kilnv1 "kiln/v1"
)

// Run runs the program once and brings its results here. Arguments without a name go to parameters and variables in
// ascending order of slot. A parameter that the program stores to is updated in place if it is a buffer.
func (p *Program) Run(ctx context.Context, arguments ...Argument) ([]Array, error) {
	return p.run(
		ctx,
		arguments,
		p.small,
		func(bound map[uint32]Argument, answer *kilnv1.ExecuteResponse) ([]Array, error) {
			var results []Array
			for _, row := range answer.Results {
				array, err := p.client.fetched(ctx, bound, row)
				if err != nil {
					return nil, err
				}
				results = append(results, array)
			}
			return results, nil
		},
	)
}

// RunKeep runs the program once and leaves its results on the device. One that is a parameter after its update is the
// buffer that was given.
func (p *Program) RunKeep(ctx context.Context, arguments ...Argument) ([]*Buffer, error) {
	bound, err := p.bind(arguments)
	if err != nil {
		return nil, err
	}
	answer, err := p.execute(ctx, bound, false)
	if err != nil {
		return nil, err
	}
	var results []*Buffer
	for _, row := range answer.Results {
		switch value := row.Value.(type) {
		case *kilnv1.ResultValue_Buffer:
			results = append(results, p.client.given(bound, value.Buffer))
		case *kilnv1.ResultValue_Tensor: // of a parameter that was sent by value
			made, err := p.client.Upload(ctx, Array{DType(value.Tensor.Dtype), value.Tensor.Shape, value.Tensor.Data})
			if err != nil {
				return nil, err
			}
			results = append(results, made)
		default:
			return nil, badArgument("a result is on several devices: call it by package kiln/v1")
		}
	}
	return results, nil
}

// run stages what is too large for a message, runs, and takes the results before what was staged is freed.
func (p *Program) run(ctx context.Context, arguments []Argument, byValue bool,
	take func(map[uint32]Argument, *kilnv1.ExecuteResponse) ([]Array, error)) ([]Array, error) {
	bound, err := p.bind(arguments)
	if err != nil {
		return nil, err
	}
	for slot, value := range bound {
		if array, is := value.(Array); is && len(array.Data) > inline {
			staged, err := p.client.Upload(ctx, array)
			if err != nil {
				return nil, err
			}
			defer func() { _ = staged.Free(context.WithoutCancel(ctx)) }()
			bound[slot] = staged
		}
	}
	answer, err := p.execute(ctx, bound, byValue)
	if err != nil {
		return nil, err
	}
	return take(bound, answer)
}

// execute sends the graph if, and only if, the server has forgotten it.
func (p *Program) execute(
	ctx context.Context,
	bound map[uint32]Argument,
	byValue bool,
) (*kilnv1.ExecuteResponse, error) {
	request := p.request(bound)
	request.ResultMode = kilnv1.ResultMode_RESULT_HANDLES
	if byValue {
		request.ResultMode = kilnv1.ResultMode_RESULT_INLINE
	}
	answer, err := p.client.kernels.Execute(ctx, request)
	if HasCode(err, kilnv1.ErrorCode_NEED_GRAPH) {
		request.Graph = p.graph
		answer, err = p.client.kernels.Execute(ctx, request)
	}
	if err != nil {
		return nil, err
	}
	return answer, p.checkResults(answer.Results)
}

// checkResults fails where there are fewer than the signature has, or where a buffer is not of the size of its array:
// memory is made of that size.
func (p *Program) checkResults(results []*kilnv1.ResultValue) error {
	rows := p.compiled.Signature.Results
	if len(results) != len(rows) {
		return badServer("gave %d results, not %d", len(results), len(rows))
	}
	for at, result := range results {
		said := result.GetBuffer()
		if said == nil {
			continue
		}
		if rows[at].Aliases != nil {
			continue // it is as large as what was given
		}
		if count, ok := byteCount(DType(said.Dtype), said.Shape); !ok || uint64(count) != said.Bytes {
			return badServer("gave result %d as %d bytes of %s %v", at, said.Bytes, DType(said.Dtype), said.Shape)
		}
		if len(rows[at].Symbolic) == 0 && said.Bytes != rows[at].Bytes {
			return badServer("gave result %d as %d bytes, not %d", at, said.Bytes, rows[at].Bytes)
		}
	}
	return nil
}

// given is a result as a buffer: the caller's own, if it is an argument's memory.
func (c *Client) given(bound map[uint32]Argument, description *kilnv1.BufferDescription) *Buffer {
	for _, value := range bound {
		if buffer, is := value.(*Buffer); is && buffer.handle == description.Handle {
			return buffer
		}
	}
	return c.buffer(description)
}

// fetched is a result's array; what was new memory is freed.
func (c *Client) fetched(ctx context.Context, bound map[uint32]Argument, row *kilnv1.ResultValue) (Array, error) {
	if value := row.GetTensor(); value != nil {
		array := Array{DType(value.Dtype), append([]int64{}, value.Shape...), value.Data}
		return array, array.check()
	}
	if row.GetBuffer() == nil {
		return Array{}, badArgument("a result is on several devices: call it by package kiln/v1")
	}
	buffer := c.given(bound, row.GetBuffer())
	for _, value := range bound {
		if value == Argument(buffer) {
			return buffer.Read(ctx)
		}
		if at, is := value.(At); is && at.Buffer.handle == buffer.handle {
			return buffer.Read(ctx)
		}
	}
	defer func() { _ = buffer.Free(context.WithoutCancel(ctx)) }()
	return buffer.Read(ctx)
}
