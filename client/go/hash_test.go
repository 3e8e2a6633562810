package kiln

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	kilnv1 "kiln/v1"
)

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
