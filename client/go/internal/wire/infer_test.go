package wire

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"kiln/v1/inference"
)

func TestARequestIsAMessageOfTheProtocol(t *testing.T) {
	yes := &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}
	request := &inference.ModelInferRequest{
		ModelName:    "m",
		ModelVersion: "2",
		Id:           "7",
		Parameters:   map[string]*inference.InferParameter{"sequence_end": yes},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "a", Datatype: "FP32", Shape: []int64{0}}, {Name: "b", Datatype: "INT64", Shape: []int64{2}},
		},
		Outputs:          []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y"}},
		RawInputContents: [][]byte{{}, bytes.Repeat([]byte{7}, 16)},
	}
	made, err := Codec.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var read inference.ModelInferRequest
	if err := proto.Unmarshal(made.Materialize(), &read); err != nil || !proto.Equal(&read, request) {
		t.Errorf("%v, not %v: %v", &read, request, err)
	}
	if fields := request.ProtoReflect().Descriptor().Fields().Len(); fields != 7 {
		t.Errorf("%d fields: what becomes of the others?", fields)
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
		if err := Codec.Unmarshal(cut, got); err != nil || !proto.Equal(got, wanted) {
			t.Errorf("%v, not %v: %v", got, wanted, err)
		}
		for length := range data {
			read := wanted.ProtoReflect().New().Interface()
			wrong := Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:length])}, read)
			if (wrong == nil) != (proto.Unmarshal(data[:length], wanted.ProtoReflect().New().Interface()) == nil) {
				t.Errorf("cut behind %d bytes: %v", length, wrong)
			}
		}
	}
	// A length beyond the message that it is in.
	inner := []byte{answerOfStreamed, 2, contentsOfAnswer, 4, 1, 2, 3, 4}
	if Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(inner)}, &inference.ModelStreamInferResponse{}) == nil {
		t.Error("contents that go beyond their answer were read")
	}
}
