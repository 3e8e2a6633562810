// Package wire is how messages with arrays become bytes.
package wire

import (
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"kiln/v1/inference"
)

// Chunks of data pass protobuf by: a WriteRequest is a tag and a length before the bytes, a ReadResponse the same. So
// each byte is copied once on this side, into the frames of HTTP/2 or out of them.

// Chunk is how many bytes travel at once.
const Chunk = 1 << 20

const (
	chunkOfWrite = 0x12 // WriteRequest.chunk = 2
	chunkOfRead  = 0x0a // ReadResponse.chunk = 1
)

// OutChunk is a WriteRequest with these bytes.
type OutChunk []byte

// InChunk is a ReadResponse whose bytes go to the front of Room; Taken is how many there were.
type InChunk struct {
	Room  []byte
	Taken int
}

// Encoded is a message in its bytes.
type Encoded []byte

// chunkCodec is protobuf's, but for chunks, and for the arrays of models (infer.go).
type chunkCodec struct{ encoding.CodecV2 }

// Codec is the one of calls whose messages are these.
var Codec = chunkCodec{encoding.GetCodecV2(proto.Name)}

func (c chunkCodec) Marshal(message any) (mem.BufferSlice, error) {
	switch message := message.(type) {
	case OutChunk:
		head := binary.AppendUvarint([]byte{chunkOfWrite}, uint64(len(message)))
		return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(message)}, nil
	case Encoded:
		return mem.BufferSlice{mem.SliceBuffer(message)}, nil
	case *inference.ModelInferRequest:
		return c.marshalRequest(message)
	default:
		return c.CodecV2.Marshal(message)
	}
}

func (c chunkCodec) Unmarshal(data mem.BufferSlice, message any) error {
	reader := data.Reader()
	defer reader.Close()
	switch message := message.(type) {
	case *InChunk:
		return message.read(reader)
	case *inference.ModelInferResponse:
		return readAnswer(reader, reader.Remaining(), message)
	case *inference.ModelStreamInferResponse:
		return readStreamed(reader, message)
	default:
		return c.CodecV2.Unmarshal(data, message)
	}
}

func (into *InChunk) read(reader *mem.Reader) error {
	into.Taken = 0
	for reader.Remaining() > 0 {
		tag, err := binary.ReadUvarint(reader)
		if err != nil {
			return errNoChunk
		}
		if tag == chunkOfRead {
			err = into.take(reader)
		} else {
			err = skip(reader, tag&7)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var (
	errNoChunk  = errors.New("what came is no ReadResponse")
	errTooLarge = errors.New("more came than was asked for")
)

func (into *InChunk) take(reader *mem.Reader) error {
	length, err := binary.ReadUvarint(reader)
	if err != nil || length > uint64(reader.Remaining()) {
		return errNoChunk
	}
	if length > uint64(len(into.Room)-into.Taken) {
		return errTooLarge
	}
	_, err = io.ReadFull(reader, into.Room[into.Taken:into.Taken+int(length)])
	into.Taken += int(length)
	return err
}

// skip passes over a field of a server that is newer.
func skip(reader *mem.Reader, wire uint64) error {
	count := uint64(0)
	var err error
	switch wire {
	case 0:
		_, err = binary.ReadUvarint(reader)
	case 1:
		count = 8
	case 2:
		count, err = binary.ReadUvarint(reader)
	case 5:
		count = 4
	default:
		return errNoChunk
	}
	if err != nil || count > uint64(reader.Remaining()) {
		return errNoChunk
	}
	_, err = reader.Discard(int(count))
	return err
}
