// The Go client, as the conformance suite drives it: a JSON object a line in, one out. tests/clients/README.md says
// what each request means.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"kiln"
	kilnv1 "kiln/v1"
)

// ask has the fields of all requests.
type ask struct {
	Do, Client, As, Of, Address, Token, Program, Buffer, Tag, Kind, Op, Device, Recording string
	Name, Version, Model                                                                  string

	Ca, Certificate, Key  string
	TokenFile             string `json:"token_file"`
	Stream                bool
	LeaseSeconds          int64  `json:"lease_seconds"`
	TimeoutMs             int64  `json:"timeout_ms"`
	CancelAfterMs         int64  `json:"cancel_after_ms"`
	Graph, Data           []byte // base64
	Tensor                *tensor
	Arguments             []argument
	Keep                  json.RawMessage
	Buffers               []string
	Inputs, Outputs       json.RawMessage // names of buffers; of a model, tensors by name, and names
	Sequence              *sequence
	Requests              []inferring
	GraphFile             string `json:"graph_file"`
	ConstantsFile         string `json:"constants_file"`
	Bytes, Offset, Handle json.RawMessage
	Root                  uint32
	Wrt                   []uint32
	Calls                 [][]json.RawMessage
	Steps                 [][]json.RawMessage
	Request               *ask

	What                    string
	Bare                    bool
	Count                   int
	Affine, Counting, Large []byte
}

type tensor struct {
	Dtype string  `json:"dtype"`
	Shape []int64 `json:"shape"`
	Data  []byte  `json:"data"`
}

type argument struct {
	Tensor  *tensor
	Buffer  string
	Integer *int64
}

type answer map[string]any

// connected is one of several clients; its stream, if requests go by that.
type connected struct {
	client *kiln.Client
	stream *kiln.Stream
}

type adapter struct {
	clients    map[string]connected
	programs   map[string]*kiln.Program
	buffers    map[string]*kiln.Buffer
	recordings map[string]*kiln.Recording
	models     map[string]*kiln.Model
	begun      map[string]chan answer
	measured   *measured
}

// one is a client with the stream that it has now.
func (a *adapter) one(name string) connected {
	one := a.clients[name]
	if one.stream != nil {
		if now, err := one.client.Stream(); err == nil {
			one.stream = now
		}
	}
	return one
}

func newAdapter() *adapter {
	return &adapter{
		map[string]connected{},
		map[string]*kiln.Program{},
		map[string]*kiln.Buffer{},
		map[string]*kiln.Recording{},
		map[string]*kiln.Model{},
		map[string]chan answer{},
		nil,
	}
}

func (t *tensor) array() (kiln.Array, error) {
	dtype, err := kiln.DTypeOf(t.Dtype)
	return kiln.Array{DType: dtype, Shape: t.Shape, Data: t.Data}, err
}

func said(array kiln.Array) *tensor {
	return &tensor{array.DType.String(), array.Shape, array.Data}
}

func graphOf(data []byte) (kiln.Grapher, error) {
	var graph kilnv1.Graph
	err := proto.Unmarshal(data, &graph)
	return kiln.FromMessage(&graph), err
}

func number(text json.RawMessage) uint64 {
	value, _ := strconv.ParseUint(strings.Trim(string(text), `"`), 10, 64)
	return value
}

// told is an error as the suite wants it.
func told(err error) answer {
	var failed *kiln.Error
	if !errors.As(err, &failed) {
		return answer{"message": err.Error()}
	}
	made := answer{
		"status":      statusName(failed.Status),
		"message":     failed.Message,
		"limit_value": failed.LimitValue,
		"used":        failed.Used,
	}
	texts := map[string]string{"op": failed.Op, "tag": failed.Tag, "field": failed.Field, "limit": failed.Limit}
	for name, text := range texts {
		if text != "" {
			made[name] = text
		}
	}
	if failed.Code != 0 {
		made["code"] = failed.Code.String() // of a code without a name its number
	}
	if failed.Node >= 0 {
		made["node"] = failed.Node
	}
	if failed.Slot >= 0 {
		made["slot"] = failed.Slot
	}
	if failed.RetryAfter > 0 {
		made["retry_after_ms"] = failed.RetryAfter.Milliseconds()
	}
	return made
}

// statuses are gRPC's, as the protocol's documents have them.
var statuses = []string{
	"OK",
	"CANCELLED",
	"UNKNOWN",
	"INVALID_ARGUMENT",
	"DEADLINE_EXCEEDED",
	"NOT_FOUND",
	"ALREADY_EXISTS",
	"PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION",
	"ABORTED",
	"OUT_OF_RANGE",
	"UNIMPLEMENTED",
	"INTERNAL",
	"UNAVAILABLE",
	"DATA_LOSS",
	"UNAUTHENTICATED",
}

// statusName is also for a number that gRPC has not.
func statusName(code codes.Code) string {
	if int(code) < len(statuses) {
		return statuses[code]
	}
	return code.String()
}

func (a *adapter) answer(request *ask) answer {
	do, is := requests[request.Do]
	if !is {
		return answer{"unsupported": request.Do}
	}
	ctx := context.Background()
	if request.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(request.TimeoutMs)*time.Millisecond)
		defer cancel()
	}
	if request.CancelAfterMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(time.Duration(request.CancelAfterMs)*time.Millisecond, cancel).Stop()
	}
	made, err := do(a, ctx, request)
	if err != nil {
		return answer{"error": told(err)}
	}
	if made == nil {
		return answer{}
	}
	return made
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	answers := json.NewEncoder(os.Stdout)
	a := newAdapter()
	for lines.Scan() {
		var request ask
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			_ = answers.Encode(answer{"unsupported": err.Error()})
			continue
		}
		_ = answers.Encode(a.answer(&request))
	}
}
