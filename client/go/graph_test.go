package kiln

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

const (
	shapes  = kilnv1.ErrorCode_SHAPE_MISMATCH
	mixed   = kilnv1.ErrorCode_DTYPE_MISMATCH
	bad     = kilnv1.ErrorCode_BAD_ARGUMENT
	missing = kilnv1.ErrorCode_MISSING_ARGUMENT
)

func TestTheFirstMistakeIsTold(t *testing.T) {
	for name, row := range map[string]struct {
		code kilnv1.ErrorCode
		make func(g *Graph, x Tensor) Tensor
	}{
		"shapes":      {shapes, func(g *Graph, x Tensor) Tensor { return x.Add(g.Full(Float32, 1, 5)) }},
		"dtypes":      {mixed, func(g *Graph, x Tensor) Tensor { return x.Add(g.Full(Int32, 1, 3)) }},
		"a number":    {bad, func(g *Graph, x Tensor) Tensor { return x.Cast(Int8).Add(300) }},
		"no operand":  {bad, func(g *Graph, x Tensor) Tensor { return x.Add("one") }},
		"another's":   {bad, func(g *Graph, x Tensor) Tensor { return x.Add(NewGraph().Param("y", Float32, 3)) }},
		"an axis":     {shapes, func(g *Graph, x Tensor) Tensor { return x.Sum(2) }},
		"no order":    {bad, func(g *Graph, x Tensor) Tensor { return x.Permute(0, 0) }},
		"a size":      {shapes, func(g *Graph, x Tensor) Tensor { return x.Reshape(4, -1) }},
		"a box":       {shapes, func(g *Graph, x Tensor) Tensor { return x.Shrink([2]int64{0, 3}, [2]int64{1, 4}) }},
		"a name":      {bad, func(g *Graph, x Tensor) Tensor { return g.Param("x", Float32, 2) }},
		"a slot":      {shapes, func(g *Graph, x Tensor) Tensor { return g.ParamAt(0, "x", Float32, 4) }},
		"no matrix":   {shapes, func(g *Graph, x Tensor) Tensor { return x.MatMul(x) }},
		"no float":    {mixed, func(g *Graph, x Tensor) Tensor { return x.Cast(Int32).Exp() }},
		"no image":    {shapes, func(g *Graph, x Tensor) Tensor { return x.Conv2D(x, Conv2D{}) }},
		"no argument": {missing, func(g *Graph, x Tensor) Tensor { return g.Call(twice())[0] }},
	} {
		g := NewGraph()
		made := row.make(g, g.Param("x", Float32, 2, 3))
		g.Output(made.Mul(2).Softmax(0).MaxPool2D(2, 2).Reshape(-1).Transpose().Pad(0).Flip(7).Where(1, made))
		if _, err := g.Build(); !HasCode(err, row.code) {
			t.Errorf("%s: %v, not %s", name, err, row.code)
		}
	}
}

func twice() *Graph {
	body := NewGraph()
	body.Output(body.Param("x", Float32, 2, 3).Mul(2))
	return body
}

func TestAGraphOfNothingIsNone(t *testing.T) {
	if _, err := NewGraph().Build(); !HasCode(err, kilnv1.ErrorCode_BAD_ROOT) {
		t.Error(err)
	}
}

func TestEqualNodesAreOne(t *testing.T) {
	g := NewGraph()
	x := g.Param("x", Float32, 4)
	g.Output(x.Add(1).Mul(x.Add(1)))
	x.Exp() // needed by nothing
	built, err := g.Build()
	// x and 1 with two sizes and three shapes, and how 1 is stretched; the sum, the product, the root.
	if err != nil || len(built.Nodes) != 11 {
		t.Errorf("%d nodes, %v", len(built.Nodes), err)
	}
}

func TestGraphFiles(t *testing.T) {
	built, err := twice().Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"graph.kgraph", "graph.pb", "graph.txtpb"} {
		path := filepath.Join(t.TempDir(), name)
		if err := WriteGraph(path, built); err != nil {
			t.Fatal(err)
		}
		read, err := ReadGraph(path)
		if err != nil || !proto.Equal(read, built) {
			t.Errorf("%s: %v, %v", name, read, err)
		}
	}
	if _, err := ReadGraph(filepath.Join(t.TempDir(), "none.pb")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func constantsFile(header string, data ...byte) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), data...)
}

const twoConstants = `{"__metadata__":{"by":"x"},"3_w":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},` +
	`"12_b_1":{"dtype":"I8","shape":[],"data_offsets":[4,5]}}  `

func TestConstantsComeFromTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, constantsFile(twoConstants, 0, 60, 0, 192, 7), 0o600); err != nil {
		t.Fatal(err)
	}
	constants, err := ReadConstants(path)
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(constants)), []uint32{3, 12}) {
		t.Fatal(constants, err)
	}
	w := constants[3]
	if w.DType != Float16 || !slices.Equal(w.Shape, []int64{2, 1}) || !slices.Equal(w.Data, []byte{0, 60, 0, 192}) {
		t.Error(w)
	}
	if b := constants[12]; b.DType != Int8 || len(b.Shape) != 0 || !slices.Equal(b.Data, []byte{7}) {
		t.Error(b)
	}
	if _, err := ReadConstants(path + "x"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestConstantsThatCannotBe(t *testing.T) {
	row := func(name, dtype, shape, offsets string) string {
		return `{"` + name + `":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	for what, file := range map[string][]byte{
		"short":             {1, 2},
		"a huge header":     {255, 255, 255, 255, 255, 255, 255, 127, '{', '}'},
		"no JSON":           constantsFile("{"),
		"a list":            constantsFile("[]"),
		"no slot":           constantsFile(row("w", "I8", "[1]", "[0,1]"), 1),
		"a slot too far":    constantsFile(row("4294967296_w", "I8", "[1]", "[0,1]"), 1),
		"an unknown dtype":  constantsFile(row("1_w", "I7", "[1]", "[0,1]"), 1),
		"beyond the end":    constantsFile(row("1_w", "I8", "[2]", "[0,2]"), 1),
		"backwards":         constantsFile(row("1_w", "I8", "[1]", "[1,0]"), 1),
		"of another size":   constantsFile(row("1_w", "I8", "[3]", "[0,1]"), 1),
		"a negative size":   constantsFile(row("1_w", "I8", "[-1]", "[0,1]"), 1),
		"a negative offset": constantsFile(row("1_w", "I8", "[1]", "[-1,0]"), 1),
		"twice": constantsFile(
			`{"1_a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},`+
				`"1_b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`,
			1,
		),
	} {
		if _, err := parseConstants(file); !HasCode(err, kilnv1.ErrorCode_BAD_ARGUMENT) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestHashOfEveryVector(t *testing.T) {
	data, err := os.ReadFile("../../tests/conformance/hash_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Hash, Error string
		Node              *int
		Graph             json.RawMessage
	}
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) < 100 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, vector := range vectors {
		var graph kilnv1.Graph
		if err := protojson.Unmarshal(vector.Graph, &graph); err != nil {
			t.Fatalf("%s: %s", vector.Name, err)
		}
		hash, err := Hash(&graph)
		var failed *Error
		switch {
		case vector.Hash != "":
			if err != nil || hex.EncodeToString(hash[:]) != vector.Hash {
				t.Errorf("%s: %x, %v", vector.Name, hash, err)
			}
		case !errors.As(err, &failed) || failed.Code.String() != vector.Error:
			t.Errorf("%s: %v, not %s", vector.Name, err, vector.Error)
		}
		if vector.Node != nil && failed != nil && failed.Node != *vector.Node {
			t.Errorf("%s: node %d, not %d", vector.Name, failed.Node, *vector.Node)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	graph := NewGraph()
	x := graph.Param("x", Float32, 64)
	for number := range 500 {
		x = x.Mul(float64(number)).Add(1).Relu()
	}
	graph.Output(x)
	built, err := graph.Build()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(built.Nodes)), "nodes")
	for b.Loop() {
		if _, err := Hash(built); err != nil {
			b.Fatal(err)
		}
	}
}
