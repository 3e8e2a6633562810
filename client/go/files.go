package kiln

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// Files of a model's constants: .safetensors, as `kiln import model.onnx -o model.kgraph` writes one beside the graph.
// Such a file is the length of its header (8 bytes, little-endian), the header (JSON), and the arrays' bytes.

// A header of more bytes is none.
const maxHeader = 100 << 20

var safetensors = map[string]DType{
	"BOOL": Bool, "U8": Uint8, "I8": Int8, "U16": Uint16, "I16": Int16, "U32": Uint32, "I32": Int32, "U64": Uint64,
	"I64": Int64, "F16": Float16, "BF16": BFloat16, "F32": Float32, "F64": Float64, "F8_E4M3": Float8E4M3,
	"F8_E5M2": Float8E5M2,
}

// ReadConstants reads the constants of a model from its .safetensors, by the slot with which each one's name begins
// ("3_weight"). They share one memory. InSlot makes arguments of them; what runs more than once uploads them first.
func ReadConstants(path string) (map[uint32]Array, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	constants, err := parseConstants(data)
	if err != nil {
		return nil, badArgument("%s: %s", path, fromError(err).Message)
	}
	return constants, nil
}

func parseConstants(file []byte) (map[uint32]Array, error) {
	if len(file) < 8 {
		return nil, badArgument("it is too short for a .safetensors")
	}
	size, rest := binary.LittleEndian.Uint64(file), file[8:]
	if size > maxHeader || size > uint64(len(rest)) {
		return nil, badArgument("a header of %d bytes cannot be", size)
	}
	header, rest := rest[:size], rest[size:]
	var rows map[string]json.RawMessage
	if err := json.Unmarshal(header, &rows); err != nil {
		return nil, badArgument("its header is not as it must be: %s", err)
	}
	constants := map[uint32]Array{}
	for name, text := range rows {
		if name == "__metadata__" {
			continue
		}
		array, err := constantOf(name, text, rest)
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(name, "_")
		slot, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, badArgument("%q begins with no slot, as \"3_weight\" does", name)
		}
		if _, twice := constants[uint32(slot)]; twice {
			return nil, badArgument("slot %d is there twice", slot)
		}
		constants[uint32(slot)] = array
	}
	return constants, nil
}

func constantOf(name string, text json.RawMessage, data []byte) (Array, error) {
	var row struct {
		Dtype   string    `json:"dtype"`
		Shape   []int64   `json:"shape"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(text, &row); err != nil {
		return Array{}, badArgument("%q is not described as it must be: %s", name, err)
	}
	dtype, is := safetensors[row.Dtype]
	if !is {
		return Array{}, badArgument("%q is of %s, which no array here is", name, row.Dtype)
	}
	begin, end := row.Offsets[0], row.Offsets[1]
	if begin > end || end > uint64(len(data)) {
		return Array{}, badArgument("%q is bytes %d to %d of %d", name, begin, end, len(data))
	}
	array := Array{dtype, append([]int64{}, row.Shape...), data[begin:end:end]}
	return array, array.check()
}
