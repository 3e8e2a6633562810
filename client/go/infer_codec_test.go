package kiln

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"kiln/v1/inference"
)

func TestARequestIsAMessageOfTheProtocol(t *testing.T) {
	_, model := (&modelServer{}).model(t)
	inputs := map[string]Array{"b": Vector([]int64{1, 2}), "a": Vector([]float32{}), "c": Scalar(true)}
	request, err := model.request(inputs, []InferOption{WithSequence(7, false, true), WithOutputs("y", "z")})
	if err != nil {
		t.Fatal(err)
	}
	made, err := codec.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var read inference.ModelInferRequest
	if err := proto.Unmarshal(made.Materialize(), &read); err != nil || !proto.Equal(&read, request) {
		t.Errorf("%v, not %v: %v", &read, request, err)
	}
	if names := []string{read.Inputs[0].Name, read.Inputs[1].Name, read.Inputs[2].Name}; !slices.Equal(
		names, slices.Sorted(maps.Keys(inputs))) {
		t.Error(names)
	}
}

func TestAnswersAreReadAsProtobufReadsThem(t *testing.T) {
	answer := &inference.ModelInferResponse{
		ModelName: "m",
		Id:        "7",
		Outputs: []*inference.ModelInferResponse_InferOutputTensor{
			{Name: "y", Datatype: "FP64", Shape: []int64{2}}, {Name: "z", Datatype: "BOOL", Shape: []int64{0}},
		},
		RawOutputContents: [][]byte{bytes.Repeat([]byte("kiln"), 4), {}},
	}
	streamed := &inference.ModelStreamInferResponse{ErrorMessage: "so", InferResponse: answer}
	for _, wanted := range []proto.Message{answer, streamed} {
		data, err := proto.Marshal(wanted)
		if err != nil {
			t.Fatal(err)
		}
		if wanted == proto.Message(streamed) { // number 1000, of a newer server
			data = append(data, 0xc2, 0x3e, 3, 'n', 'e', 'w')
		}
		got := proto.Clone(wanted) // it is read over
		cut := mem.BufferSlice{mem.SliceBuffer(data[:1]), mem.SliceBuffer(data[1:20]), mem.SliceBuffer(data[20:])}
		if err := codec.Unmarshal(cut, got); err != nil || !proto.Equal(got, wanted) {
			t.Errorf("%v, not %v: %v", got, wanted, err)
		}
		for length := range data {
			read := wanted.ProtoReflect().New().Interface()
			wrong := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:length])}, read)
			if (wrong == nil) != (proto.Unmarshal(data[:length], wanted.ProtoReflect().New().Interface()) == nil) {
				t.Errorf("cut behind %d bytes: %v", length, wrong)
			}
		}
	}
	// A length beyond the message that it is in.
	inner := []byte{answerOfStreamed, 2, contentsOfAnswer, 4, 1, 2, 3, 4}
	if codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(inner)}, &inference.ModelStreamInferResponse{}) == nil {
		t.Error("contents that go beyond their answer were read")
	}
}
