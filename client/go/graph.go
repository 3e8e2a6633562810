package kiln

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

// Graph is a graph under construction, of one goroutine. Tensors are its nodes; nothing is computed here, and equal
// nodes are one. The first mistake is kept, and told by Build and Compile: what follows it does nothing.
type Graph struct {
	nodes    []*kilnv1.UOp
	interned map[string]uint32
	slots    map[uint32]parameter
	outputs  []uint32
	results  []Tensor // of the outputs, those that are no updates
	failed   *Error
}

type parameter struct {
	name  string
	dtype DType
	shape []int64
}

// Tensor is a value in a graph.
type Tensor struct {
	graph *Graph
	node  uint32
	dtype DType
	shape []int64
}

// NewGraph begins a graph.
func NewGraph() *Graph { return &Graph{} }

// DType is the type of its elements.
func (t Tensor) DType() DType { return t.dtype }

// Shape is the size along each axis.
func (t Tensor) Shape() []int64 { return slices.Clone(t.shape) }

// fail keeps the first mistake, and gives a tensor that nothing is made of.
func (g *Graph) fail(code kilnv1.ErrorCode, function, format string, values ...any) Tensor {
	if g.failed == nil {
		g.failed = newError(code, codes.InvalidArgument, "%s: %s", function, fmt.Sprintf(format, values...))
	}
	return Tensor{graph: g}
}

func (g *Graph) wrongShape(function, format string, values ...any) Tensor {
	return g.fail(kilnv1.ErrorCode_SHAPE_MISMATCH, function, format, values...)
}

// Err is the first mistake, or nil.
func (g *Graph) Err() error {
	if g.failed == nil {
		return nil
	}
	return g.failed
}

// Param is an argument of the program, in the next free slot.
func (g *Graph) Param(name string, dtype DType, shape ...int64) Tensor {
	slot := uint32(0)
	for other := range g.slots {
		slot = max(slot, other+1)
	}
	return g.ParamAt(slot, name, dtype, shape...)
}

// ParamAt is an argument of the program in a slot of the caller's choice.
func (g *Graph) ParamAt(slot uint32, name string, dtype DType, shape ...int64) Tensor {
	if _, ok := byteCount(dtype, shape); !ok {
		return g.fail(kilnv1.ErrorCode_BAD_ARGUMENT, "Param", "%q cannot be %s of shape %v", name, dtype, shape)
	}
	if held, is := g.slots[slot]; is && (held.dtype != dtype || !slices.Equal(held.shape, shape)) {
		return g.wrongShape("Param", "slot %d is %s %v already, not %s %v", slot, held.dtype, held.shape, dtype, shape)
	}
	for other, held := range g.slots {
		if name != "" && held.name == name && other != slot {
			return g.fail(kilnv1.ErrorCode_BAD_ARGUMENT, "Param", "slot %d is named %q already", other, name)
		}
	}
	if g.slots == nil {
		g.slots = map[uint32]parameter{}
	}
	g.slots[slot] = parameter{name, dtype, slices.Clone(shape)}
	arg := &kilnv1.BufferArg{Slot: slot, Dtype: dtype.message(), Name: name}
	return g.tensor(
		dtype,
		shape,
		&kilnv1.UOp{Op: kilnv1.Op_PARAM, Src: []uint32{g.shapeNode(shape)}, Arg: &kilnv1.UOp_Buffer{Buffer: arg}},
	)
}

// Output makes tensors results of the program, in the order of all calls.
func (g *Graph) Output(tensors ...Tensor) {
	for _, t := range tensors {
		if g.owns("Output", t) {
			g.outputs, g.results = append(g.outputs, t.node), append(g.results, t)
		}
	}
}

// Update stores a value to a parameter, or to a view of one, when the program has run. Other nodes see what was before.
func (g *Graph) Update(target Tensor, value Tensor) {
	if !g.owns("Update", target) || !g.owns("Update", value) {
		return
	}
	base := g.nodes[target.node]
	for slices.Contains(views, base.Op) {
		base = g.nodes[base.Src[0]]
	}
	switch {
	case base.Op != kilnv1.Op_PARAM:
		g.fail(
			kilnv1.ErrorCode_BAD_ARGUMENT,
			"Update",
			"only a parameter or a view of one can be updated; this is computed",
		)
	case value.dtype != target.dtype:
		g.fail(
			kilnv1.ErrorCode_DTYPE_MISMATCH,
			"Update",
			"the parameter is %s, the value %s: Cast it",
			target.dtype,
			value.dtype,
		)
	default:
		value = value.Broadcast(target.shape...)
		g.outputs = append(g.outputs, g.node(&kilnv1.UOp{Op: kilnv1.Op_STORE, Src: []uint32{target.node, value.node}}))
	}
}

// Ops through which a tensor is a view of a parameter.
var views = []kilnv1.Op{kilnv1.Op_RESHAPE, kilnv1.Op_PERMUTE, kilnv1.Op_SHRINK, kilnv1.Op_FLIP, kilnv1.Op_BITCAST}

func (g *Graph) owns(function string, t Tensor) bool {
	if g.failed == nil && t.graph != g {
		g.fail(kilnv1.ErrorCode_BAD_ARGUMENT, function, "a tensor of another graph")
	}
	return g.failed == nil
}

// node is the index of a node, which is that of an equal one if there is any.
func (g *Graph) node(uop *kilnv1.UOp) uint32 {
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(uop)
	if err != nil {
		g.fail(kilnv1.ErrorCode_BAD_ARGUMENT, uop.Op.String(), "%s", err)
	}
	found, is := g.interned[string(key)]
	if !is {
		found = uint32(len(g.nodes))
		if g.interned == nil {
			g.interned = map[string]uint32{}
		}
		g.interned[string(key)] = found
		g.nodes = append(g.nodes, uop)
	}
	return found
}

func (g *Graph) tensor(dtype DType, shape []int64, uop *kilnv1.UOp) Tensor {
	if g.failed != nil {
		return Tensor{graph: g}
	}
	return Tensor{g, g.node(uop), dtype, slices.Clone(shape)}
}

// shapeNode is a shape as a source of movement ops.
func (g *Graph) shapeNode(shape []int64) uint32 {
	stack := &kilnv1.UOp{Op: kilnv1.Op_STACK}
	for _, size := range shape {
		arg := &kilnv1.ConstArg{Dtype: weakInt.message(), Value: &kilnv1.ConstArg_I{I: size}}
		stack.Src = append(
			stack.Src,
			g.node(&kilnv1.UOp{Op: kilnv1.Op_CONST, Arg: &kilnv1.UOp_Constant{Constant: arg}}),
		)
	}
	return g.node(stack)
}

// Build is the graph as a message: the nodes that outputs and updates need, the root last.
func (g *Graph) Build() (*kilnv1.Graph, error) {
	if g.failed != nil {
		return nil, g.failed
	}
	if len(g.outputs) == 0 {
		return nil, newError(
			kilnv1.ErrorCode_BAD_ROOT,
			codes.InvalidArgument,
			"the graph has neither an output nor an update",
		)
	}
	needed := make([]bool, len(g.nodes))
	for _, node := range g.outputs {
		needed[node] = true
	}
	for node := len(g.nodes) - 1; node >= 0; node-- {
		for _, source := range g.nodes[node].Src {
			needed[source] = needed[source] || needed[node]
		}
	}
	built, numbers := &kilnv1.Graph{}, make([]uint32, len(g.nodes))
	renumbered := func(sources []uint32) []uint32 {
		var made []uint32
		for _, source := range sources {
			made = append(made, numbers[source])
		}
		return made
	}
	for node, uop := range g.nodes {
		if needed[node] {
			copied := proto.CloneOf(uop)
			copied.Src = renumbered(uop.Src)
			numbers[node] = uint32(len(built.Nodes))
			built.Nodes = append(built.Nodes, copied)
		}
	}
	built.Nodes = append(built.Nodes, &kilnv1.UOp{Op: kilnv1.Op_TUPLE, Src: renumbered(g.outputs)})
	return built, nil
}
