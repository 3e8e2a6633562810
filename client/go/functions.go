package kiln

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

// Call calls another graph as a function: argument k stands in the place of its parameter in slot k. What it gives are
// the other graph's outputs. A large body that is called twice is compiled once.
func (g *Graph) Call(body *Graph, arguments ...Tensor) []Tensor {
	built, err := body.Build()
	if err != nil {
		g.failed = fromError(err)
	}
	for slot, held := range body.slots {
		switch {
		case int(slot) >= len(arguments):
			g.fail(kilnv1.ErrorCode_MISSING_ARGUMENT, "Call", "no argument for slot %d", slot)
		case g.owns("Call", arguments[slot]) && !held.takes(arguments[slot]):
			g.wrongShape(
				"Call",
				"parameter %q is %s %v, the argument %s %v",
				held.name,
				held.dtype,
				held.shape,
				arguments[slot].dtype,
				arguments[slot].shape,
			)
		}
	}
	if len(body.results) != len(body.outputs) {
		g.fail(kilnv1.ErrorCode_BAD_ARGUMENT, "Call", "the body updates a parameter")
	}
	made := make([]Tensor, len(body.results))
	if g.failed != nil {
		for at := range made {
			made[at] = Tensor{graph: g}
		}
		return made
	}
	numbers := g.copy(built)
	function := &kilnv1.UOp{Op: kilnv1.Op_FUNCTION, Src: []uint32{numbers[len(numbers)-1]}}
	for _, argument := range arguments {
		function.Src = append(function.Src, argument.node)
	}
	call := g.node(function)
	for at, result := range body.results {
		made[at] = g.tensor(
			result.dtype,
			result.shape,
			&kilnv1.UOp{Op: kilnv1.Op_GETTUPLE, Src: []uint32{call}, Arg: &kilnv1.UOp_Index{Index: int64(at)}},
		)
	}
	return made
}

func (p parameter) takes(t Tensor) bool { return t.dtype == p.dtype && slices.Equal(t.shape, p.shape) }

// copy puts a graph's nodes into this one, and gives their indices here.
func (g *Graph) copy(graph *kilnv1.Graph) []uint32 {
	var numbers []uint32
	for _, uop := range graph.Nodes {
		copied := proto.CloneOf(uop)
		for at, source := range copied.Src {
			copied.Src[at] = numbers[source]
		}
		numbers = append(numbers, g.node(copied))
	}
	return numbers
}

// Append puts a gradient's graph into this one, and gives its results in order. Its parameters are those of equal slots
// here.
func (g *Graph) Append(gradient *kilnv1.GradientResponse) []Tensor {
	made := make([]Tensor, len(gradient.Results))
	for at := range made {
		made[at] = Tensor{graph: g}
	}
	nodes := gradient.GetGraph().GetNodes()
	if g.failed != nil || len(nodes) == 0 || len(nodes[len(nodes)-1].Src) != len(made) {
		g.fail(kilnv1.ErrorCode_BAD_ROOT, "Append", "no gradient")
		return made
	}
	for number, uop := range nodes {
		for _, source := range uop.Src {
			if int(source) >= number {
				g.fail(kilnv1.ErrorCode_GRAPH_CYCLE, "Append", "source %d of node %d is not earlier", source, number)
				return made
			}
		}
		if arg := uop.GetBuffer(); uop.Op == kilnv1.Op_PARAM && arg.GetAddrspace() != kilnv1.AddrSpace_ALU {
			if _, is := g.slots[arg.GetSlot()]; arg == nil || !is {
				g.fail(
					kilnv1.ErrorCode_UNKNOWN_ARGUMENT,
					"Append",
					"there is no parameter in slot %d: make it with ParamAt",
					arg.GetSlot(),
				)
				return made
			}
		}
	}
	numbers := g.copy(&kilnv1.Graph{Nodes: nodes[:len(nodes)-1]})
	for at, source := range nodes[len(nodes)-1].Src {
		row := gradient.Results[at]
		made[at] = Tensor{g, numbers[source], DType(row.Dtype), slices.Clone(row.Shape)}
	}
	return made
}

// Gradient asks the server for the graph of a result's gradient with respect to parameters, by their slots. The
// answer's graph can be compiled (FromMessage), or put into another (Graph.Append). The result must have one element,
// or `more` names a cotangent; `more` may be nil, and its graph and slots count for nothing.
func (c *Client) Gradient(
	ctx context.Context,
	graph Grapher,
	wrt []uint32,
	more *kilnv1.GradientRequest,
) (*kilnv1.GradientResponse, error) {
	built, err := graph.Build()
	if err != nil {
		return nil, err
	}
	request := &kilnv1.GradientRequest{}
	if more != nil {
		request = proto.CloneOf(more)
	}
	request.Graph, request.WrtSlot = built, wrt
	return c.kernels.Gradient(ctx, request)
}
