package kiln

import (
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

// ReadGraph reads a graph's file: .kgraph or .pb has the message as it travels, .txtpb its text. `kiln import` and
// `kiln gradient` write .kgraph and .pb; ReadConstants reads what `kiln import` writes beside a .kgraph.
func ReadGraph(path string) (*kilnv1.Graph, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var graph kilnv1.Graph
	if isText(path) {
		err = prototext.Unmarshal(data, &graph)
	} else {
		err = proto.Unmarshal(data, &graph)
	}
	if err != nil {
		return nil, badArgument("%s is no graph: %s", path, err)
	}
	return &graph, nil
}

// WriteGraph writes a graph's file, as its name says.
func WriteGraph(path string, graph *kilnv1.Graph) error {
	data, err := proto.Marshal(graph)
	if isText(path) {
		data, err = prototext.MarshalOptions{Multiline: true}.Marshal(graph)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o666)
}

func isText(path string) bool { return filepath.Ext(path) == ".txtpb" }
