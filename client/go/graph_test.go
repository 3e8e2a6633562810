package kiln

import (
	"path/filepath"
	"testing"

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
