package wire

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

func TestChunksAreMessagesOfTheProtocol(t *testing.T) {
	data := bytes.Repeat([]byte("kiln"), 1000)
	sent, err := Codec.Marshal(OutChunk(data))
	if err != nil {
		t.Fatal(err)
	}
	var request kilnv1.WriteRequest
	if err := proto.Unmarshal(sent.Materialize(), &request); err != nil || !bytes.Equal(request.GetChunk(), data) {
		t.Fatalf("%v, %v", &request, err)
	}
	answer, err := proto.Marshal(&kilnv1.ReadResponse{Chunk: data})
	if err != nil {
		t.Fatal(err)
	}
	answer = append(answer, 0xc2, 0x3e, 3, 'n', 'e', 'w') // field 1000 of a newer server
	into := &InChunk{Room: make([]byte, len(data))}
	cut := mem.BufferSlice{mem.SliceBuffer(answer[:1]), mem.SliceBuffer(answer[1:77]), mem.SliceBuffer(answer[77:])}
	if err := Codec.Unmarshal(cut, into); err != nil || into.Taken != len(data) || !bytes.Equal(into.Room, data) {
		t.Fatalf("%d, %v", into.Taken, err)
	}
	into = &InChunk{Room: make([]byte, len(data)-1)}
	if err := Codec.Unmarshal(cut, into); err != errTooLarge {
		t.Error(err)
	}
	for length := range answer {
		into = &InChunk{Room: make([]byte, len(data))}
		if err := Codec.Unmarshal(
			mem.BufferSlice{mem.SliceBuffer(answer[:length])},
			into,
		); err == nil && length != 0 &&
			length != len(answer)-6 {
			t.Errorf("cut behind %d bytes, it was read", length)
		}
	}
}
