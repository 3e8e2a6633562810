package kiln

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	kilnv1 "kiln/v1"
)

// Arrays of more bytes travel in chunks of their own, not in the message of a call.
const inline = 4 << 20

// Grapher is what can be compiled: a *Graph, or a message as FromMessage takes it.
type Grapher interface {
	Build() (*kilnv1.Graph, error)
}

type message struct{ graph *kilnv1.Graph }

func (m message) Build() (*kilnv1.Graph, error) { return m.graph, nil }

// FromMessage lets a message be compiled, such as ReadGraph gives.
func FromMessage(graph *kilnv1.Graph) Grapher { return message{graph} }

// Program is a graph that a server has compiled.
type Program struct {
	client   *Client
	graph    *kilnv1.Graph
	options  *kilnv1.CompileOptions
	compiled *kilnv1.CompileResponse
	takes    []taken
	small    bool
}

// taken is a parameter, or a variable if `parameter` is -1.
type taken struct {
	slot      uint32
	name      string
	parameter int
}

// Compile compiles a graph, or finds it compiled; options may be nil. It computes the graph's hash itself, and believes
// no server that says another.
func (c *Client) Compile(ctx context.Context, graph Grapher, options *kilnv1.CompileOptions) (*Program, error) {
	built, err := graph.Build()
	if err != nil {
		return nil, err
	}
	answer, err := c.kernels.Compile(ctx, &kilnv1.CompileRequest{Graph: built, Device: c.device, Options: options})
	if err != nil {
		return nil, err
	}
	hash, err := Hash(built)
	if err == nil && !bytes.Equal(hash[:], answer.GraphHash) {
		err = newError(
			kilnv1.ErrorCode_HASH_MISMATCH,
			codes.Internal,
			"the server says the graph's hash is %x, it is %x",
			answer.GraphHash,
			hash,
		)
	}
	if err != nil {
		return nil, err
	}
	if err := checkSignature(answer.Signature); err != nil {
		return nil, err
	}
	if g, is := graph.(*Graph); is && len(g.results) != len(answer.Signature.Results) {
		return nil, badServer("says that %d outputs give %d results", len(g.results), len(answer.Signature.Results))
	}
	p := &Program{client: c, graph: built, options: options, compiled: answer}
	for at, row := range answer.Signature.Parameters {
		p.takes = append(p.takes, taken{row.Slot, row.Name, at})
	}
	for _, row := range answer.Signature.Variables {
		p.takes = append(p.takes, taken{row.Slot, row.Name, -1})
	}
	slices.SortFunc(p.takes, func(a, b taken) int { return cmp.Compare(a.slot, b.slot) })
	total := uint64(0)
	for _, row := range answer.Signature.Results {
		total += row.Bytes
	}
	p.small = total <= inline
	return p, nil
}

// checkSignature fails where the server's word could not be used.
func checkSignature(said *kilnv1.Signature) error {
	if said == nil {
		return badServer("compiled, and does not say to what")
	}
	for at, row := range said.Results {
		if row.Aliases != nil && uint64(*row.Aliases) >= uint64(len(said.Parameters)) {
			return badServer("says that result %d is parameter %d of %d", at, *row.Aliases, len(said.Parameters))
		}
	}
	return nil
}

// Hash is the graph's, 32 bytes.
func (p *Program) Hash() []byte { return slices.Clone(p.compiled.GraphHash) }

// Signature says what the program takes and gives.
func (p *Program) Signature() *kilnv1.Signature { return p.compiled.Signature }

// Graph is what was sent: nodes in errors are of it.
func (p *Program) Graph() *kilnv1.Graph { return p.graph }

// Argument is what a program can be given: an Array, a *Buffer, At, an Integer for a variable, or one of these
// Named, or InSlot.
type Argument interface {
	argument() *kilnv1.Argument
}

// Integer is a variable's value.
type Integer int64

// At is the part of a buffer from a byte on.
type At struct {
	Buffer *Buffer
	Offset uint64
}

// Named is an argument for the parameter or variable of that name, wherever it stands.
type Named struct {
	Name  string
	Value Argument
}

// InSlot is an argument for the parameter or variable in that slot, such as a constant of a model's file.
type InSlot struct {
	Slot  uint32
	Value Argument
}

func (a Array) argument() *kilnv1.Argument {
	value := &kilnv1.Tensor{Dtype: a.DType.message(), Shape: a.Shape, Data: a.Data}
	return &kilnv1.Argument{Value: &kilnv1.Argument_Tensor{Tensor: value}}
}

func (b *Buffer) argument() *kilnv1.Argument { return At{b, 0}.argument() }

func (a At) argument() *kilnv1.Argument {
	return &kilnv1.Argument{Value: &kilnv1.Argument_Buffer{Buffer: a.Buffer.ref(a.Offset)}}
}

func (i Integer) argument() *kilnv1.Argument {
	return &kilnv1.Argument{Value: &kilnv1.Argument_Integer{Integer: int64(i)}}
}

func (n Named) argument() *kilnv1.Argument { return n.Value.argument() }

func (i InSlot) argument() *kilnv1.Argument { return i.Value.argument() }

// bind gives arguments their slots: those without a name or slot go to parameters and variables in ascending order of
// slot.
func (p *Program) bind(arguments []Argument) (map[uint32]Argument, error) {
	bound, next := map[uint32]Argument{}, 0
	for _, argument := range arguments {
		at := next
		if named, is := argument.(Named); is {
			at = slices.IndexFunc(p.takes, func(row taken) bool { return row.name == named.Name })
			argument = named.Value
			if at < 0 {
				return nil, newError(
					kilnv1.ErrorCode_UNKNOWN_ARGUMENT,
					codes.InvalidArgument,
					"the program has no parameter %q",
					named.Name,
				)
			}
		} else if slotted, is := argument.(InSlot); is {
			at = slices.IndexFunc(p.takes, func(row taken) bool { return row.slot == slotted.Slot })
			argument = slotted.Value
			if at < 0 {
				return nil, newError(
					kilnv1.ErrorCode_UNKNOWN_ARGUMENT,
					codes.InvalidArgument,
					"the program has no parameter in slot %d",
					slotted.Slot,
				)
			}
		} else if next++; at >= len(p.takes) {
			return nil, newError(
				kilnv1.ErrorCode_UNKNOWN_ARGUMENT,
				codes.InvalidArgument,
				"%d arguments for a program of %d",
				len(arguments),
				len(p.takes),
			)
		}
		if _, twice := bound[p.takes[at].slot]; twice {
			return nil, badArgument("%q, in slot %d, is given twice", p.takes[at].name, p.takes[at].slot)
		}
		if array, is := argument.(Array); is {
			if err := array.check(); err != nil {
				return nil, err
			}
		}
		bound[p.takes[at].slot] = argument
	}
	return bound, nil
}

func (p *Program) request(bound map[uint32]Argument) *kilnv1.ExecuteRequest {
	request := &kilnv1.ExecuteRequest{GraphHash: p.compiled.GraphHash, Device: p.client.device, Options: p.options}
	for _, row := range p.takes {
		if value, is := bound[row.slot]; is {
			argument := value.argument()
			argument.Slot = row.slot
			request.Arguments = append(request.Arguments, argument)
		}
	}
	return request
}
