package kiln

import (
	"encoding/binary"
	"strconv"

	"google.golang.org/grpc/codes"
	"lukechampine.com/blake3"

	kilnv1 "kiln/v1"
)

// Hash is a graph's hash, the same in every language: proto/README.md fixes each byte. A digest of a node is BLAKE3
// over its op's name, its argument in canonical form and its sources' digests, so one pass from the first node to the
// last gives all.
//
// What has no hash is an *Error with the code and the node that the server would give.
func Hash(graph *kilnv1.Graph) ([32]byte, error) {
	var digest [32]byte
	nodes := graph.GetNodes()
	if len(nodes) == 0 {
		return digest, newError(
			kilnv1.ErrorCode_GRAPH_EMPTY,
			codes.InvalidArgument,
			"a graph without nodes has no hash",
		)
	}
	if _, known := kilnv1.Dialect_name[int32(graph.Dialect)]; !known {
		return digest, badArgument("dialect %d is unknown", graph.Dialect)
	}
	digests := make([][32]byte, len(nodes))
	var text []byte
	for number, node := range nodes {
		written, err := appendNode(text[:0], node, number, digests, graph.Dialect == kilnv1.Dialect_LEGACY_2025)
		if err != nil {
			return digest, atNode(fromError(err), number, node)
		}
		text = written
		digests[number] = blake3.Sum256(text)
	}
	return blake3.Sum256(append([]byte("kiln.graph\x01"), digests[len(nodes)-1][:]...)), nil
}

func atNode(failed *Error, number int, node *kilnv1.UOp) *Error {
	failed.Node, failed.Op, failed.Tag = number, strconv.Itoa(int(node.GetOp())), node.GetTag()
	if isOp(node.GetOp()) {
		failed.Op = node.GetOp().String()
	}
	return failed
}

func isOp(op kilnv1.Op) bool {
	_, known := kilnv1.Op_name[int32(op)]
	return known && op != kilnv1.Op_OP_UNSPECIFIED
}

func appendNode(to []byte, node *kilnv1.UOp, number int, digests [][32]byte, legacy bool) ([]byte, error) {
	if !isOp(node.GetOp()) {
		return nil, newError(kilnv1.ErrorCode_UNKNOWN_OP, codes.Unimplemented, "op %d is unknown", node.GetOp())
	}
	to, err := appendArgument(appendString(to, opName(node, legacy)), node)
	if err != nil {
		return nil, err
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(len(node.Src)))
	for _, source := range node.Src {
		if uint64(source) >= uint64(len(digests)) {
			return nil, newError(
				kilnv1.ErrorCode_SOURCE_OUT_OF_RANGE,
				codes.InvalidArgument,
				"source %d is no node of the graph",
				source,
			)
		}
		if int(source) >= number {
			return nil, newError(
				kilnv1.ErrorCode_GRAPH_CYCLE,
				codes.InvalidArgument,
				"source %d is not earlier",
				source,
			)
		}
		to = append(to, digests[source][:]...)
	}
	return to, nil
}

// opName is an op's name, by what its dialect, and a dtype that is no mere check, make of it.
func opName(node *kilnv1.UOp, legacy bool) string {
	op := node.GetOp()
	name := op.String()
	switch op {
	case kilnv1.Op_IDIV:
		name = map[bool]string{false: "FLOORDIV", true: "CDIV"}[legacy]
	case kilnv1.Op_MOD:
		name = map[bool]string{false: "FLOORMOD", true: "CMOD"}[legacy]
	case kilnv1.Op_LOAD, kilnv1.Op_STORE, kilnv1.Op_RANGE:
		if legacy {
			name += ":LEGACY_2025"
		}
	}
	if saysDType(node) {
		name += ":" + strconv.Itoa(int(node.Dtype))
	}
	return name
}

// saysDType is whether the node's dtype is no check, but says what it is.
func saysDType(node *kilnv1.UOp) bool {
	dtype := node.GetDtype()
	if dtype == 0 {
		return false
	}
	switch node.GetOp() {
	case kilnv1.Op_BUFFER_VIEW, kilnv1.Op_CUSTOM, kilnv1.Op_CUSTOMI, kilnv1.Op_EMPTY, kilnv1.Op_INS, kilnv1.Op_VCONST:
		return true
	case kilnv1.Op_DEFINE_GLOBAL, kilnv1.Op_DEFINE_LOCAL, kilnv1.Op_DEFINE_REG, kilnv1.Op_DEFINE_ACC:
		return node.GetBuffer().GetDtype() == 0
	case kilnv1.Op_RANGE, kilnv1.Op_LOOP, kilnv1.Op_SPECIAL:
		return dtype != kilnv1.DType_INT64 && dtype != kilnv1.DType_WEAKINT
	}
	return false
}
